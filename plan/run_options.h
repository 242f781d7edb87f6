// Options of the loop and of what hangs on it: log, evaluation, checkpoints, target, debug
// switches. Here, because Plan gathers them and trainer/ ranks above.
#pragma once
#include "core/config/visitor.h"
#include "core/device/sync_guard.h"
#include "data/images/tta.h"

namespace bellows {

enum class OnNonfinite { stop, skip, go_on };
struct TrainOptions {
  int64_t epochs = 1;
  int64_t max_iters = 0;                         // 0: as many as the epochs have
  int64_t accumulate = 1;                        // micro-batches an update
  bool cuda_graph = false;                       // an update is captured once and replayed
  std::vector<int64_t> tuning_window = {1, 10};  // updates in which autotuning may try
  std::string weights = {};                      // a safetensors file that a new run starts from
  bool weights_strict = true;  // it has to have all tensors of the model, and no others
  bool dry_run = false;  // one forward and backward on the largest batch before the first step
  OnNonfinite on_nonfinite = OnNonfinite::stop;
  int64_t max_nonfinite = 1;  // in a row, then exit 5
  int64_t patience = 0;       // evaluations without improvement, then the run ends; 0: no limit
};
void visit(Visitor& v, TrainOptions& o);

struct EvalOptions {
  int64_t every = 1;       // epochs; 0: never
  int64_t batch_size = 0;  // 0: as in training
  bool no_grad = false;
  Tta tta = Tta::none;
};
void visit(Visitor& v, EvalOptions& o);

enum class LogFormat { paddle, json, plain };
struct LogOptions {
  int64_t every = 20;  // iterations
  LogFormat format = LogFormat::paddle;
  bool deferred = false;  // losses stay on the device and are read at log steps only
  bool tensorboard = true;
  bool progress = true;  // a bar on a terminal; lines in a pipe, always
};
void visit(Visitor& v, LogOptions& o);

enum class OnSaveError { stop, warn };
struct CkptOptions {
  int64_t every = 1;            // epochs; 0: at the end only
  int64_t every_iters = 0;      // in addition; 0: not
  int64_t keep = 3;             // the newest so many
  std::string best = "none";    // metric by which the best is kept besides, as best.safetensors
  bool async = false;           // a snapshot first, written in the background
  double max_overhead = 0.035;  // share of the time spent saving, above which a warning is due
  int64_t retries = 1;
  OnSaveError on_error = OnSaveError::stop;
  bool require_finite = false;  // exit 5 where a loaded tensor holds NaN or Inf; else a warning
};
void visit(Visitor& v, CkptOptions& o);

// How long it took until the evaluation metric got there; training stops at it unless told not to.
struct TargetOptions {
  std::string metric = "none";
  double value = 0;
  bool stop = true;
};
void visit(Visitor& v, TargetOptions& o);

struct ProfileOptions {
  std::vector<int64_t> window;  // the first update and the one after the last; empty: none
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
