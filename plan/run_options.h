// Options of the training loop: evaluation, log, checkpoints, target, profiling and debug switches.
// They are declared here because Plan contains them and trainer/ has a higher rank.
#pragma once
#include "core/config/choice.h"
#include "core/device/sync_guard.h"
#include "models/metrics/metric.h"

namespace bellows {

class Visitor;

enum class OnNonfinite { stop, skip, go_on };
struct TrainOptions {
  int64_t epochs = 1;
  int64_t max_iters = 0;                         // limit on updates; 0: none but `epochs`
  int64_t accumulate = 1;                        // micro-batches per update
  bool cuda_graph = false;                       // an update is captured once and replayed
  std::vector<int64_t> tuning_window = {1, 10};  // first and last update that may autotune
  std::string weights = {};                      // safetensors file or run folder to start from
  bool weights_strict = true;                    // the file must hold exactly the model's tensors
  bool dry_run = false;  // one forward and backward on the largest batch before the first step
  OnNonfinite on_nonfinite = OnNonfinite::stop;
  int64_t max_nonfinite = 1;  // consecutive non-finite losses before the run stops with exit 5
  int64_t patience = 0;       // early stopping after n evaluations without improvement; 0: off
};
void visit(Visitor& v, TrainOptions& o);

struct EvalOptions {
  int64_t every = 1;       // epochs between evaluations; 0: never
  int64_t batch_size = 0;  // 0: same as in training
  bool no_grad = false;
  // Metrics besides the loss. Those that need more classes than the data set has are left out.
  std::vector<Choice<MakeMetric>> metrics = {Choice<MakeMetric>("accuracy"),
                                             Choice<MakeMetric>("top_k")};
};
void visit(Visitor& v, EvalOptions& o);

enum class LogFormat { paddle, json, plain };
struct LogOptions {
  int64_t every = 20;  // iterations between log lines
  LogFormat format = LogFormat::paddle;
  bool deferred = false;       // losses stay on the device and are read at log steps only
  bool kernels = false;        // the summary lists which implementations ran
  int64_t pictures_every = 0;  // updates between pictures of a batch; 0: none
  bool tensorboard = true;
  bool progress = true;  // progress bar on a terminal; a pipe always receives lines
};
void visit(Visitor& v, LogOptions& o);

enum class OnSaveError { stop, warn };
struct CkptOptions {
  int64_t every = 1;            // epochs between checkpoints; 0: only at the end
  int64_t every_iters = 0;      // iterations between further checkpoints; 0: none
  int64_t keep = 3;             // number of newest checkpoints to keep
  std::string best = "none";    // metric of the best checkpoint, kept as best.safetensors
  bool async = false;           // copy the state, write the copy in the background
  double max_overhead = 0.035;  // fraction of time spent saving above which to warn
  int64_t retries = 1;
  OnSaveError on_error = OnSaveError::stop;
  bool require_finite = false;  // NaN or Inf in a loaded tensor: exit 5 instead of a warning
};
void visit(Visitor& v, CkptOptions& o);
// Returns the name of the option that sets how often checkpoints are saved.
inline const char* saving_interval(const CkptOptions& o) {
  return o.every_iters                 ? "ckpt.every_iters"
         : o.every || o.best == "none" ? "ckpt.every"
                                       : "eval.every";
}

// Target value of an evaluation metric. The time to reach it is reported; by default training stops
// there.
struct TargetOptions {
  std::string metric = "none";
  double value = 0;
  bool stop = true;
};
void visit(Visitor& v, TargetOptions& o);

// Planted load: a lesson states how loading relates to computing, on any machine.
constexpr int64_t kAutoCompute = -1;
struct SimOptions {
  // Least time of an update, in us: a faster update spins for the rest. kAutoCompute: the verb
  // measures an update and sets at least twice its time.
  int64_t compute = 0;
  double load = 0;  // time to load a batch, in multiples of `compute`; 0: data.sim_latency_us
};
void visit(Visitor& v, SimOptions& o);

struct ProfileOptions {
  std::vector<int64_t> window;  // profiled updates [first, last); empty: none
  bool exit_after = false;
};
void visit(Visitor& v, ProfileOptions& o);

struct DebugOptions {
  bool anomaly = false;
  OnSync sync_guard = OnSync::ignore;
  bool lock_stats = false;
};
void visit(Visitor& v, DebugOptions& o);

}  // namespace bellows
