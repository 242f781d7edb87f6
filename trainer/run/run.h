// Runs one training from its config to its summary.
#pragma once
#include "core/base/json.h"
#include "plan/toggle.h"
#include "trainer/run/loop.h"
#include "trainer/state/run_folder.h"
#include "trainer/state/training_state.h"

namespace bellows {

struct RunRequest {
  Config config;
  std::string folder;  // "": runs/<name>
  bool overwrite = false;
  std::string resume;  // "latest", a run folder or a checkpoint file; "": a new run
  // Instead of training: one forward and backward, after data and checkpoint have been loaded.
  // Writes no run folder and searches for no kernels.
  bool dry_run = false;
};

// Trains and writes the run folder; with several ranks, rank 0 alone writes and prints. Returns the
// exit code: 0, or 130 or 143 after a signal. Throws Error.
int run_training(RunRequest request);

struct RankCounts {
  int64_t saved = 1, now = 1;
};
// Compares the plan of a resumed run with the plan in its checkpoint. Returns the options that
// differ. Throws Error (exit 2) with the reason for an option that cannot change. The marks of
// options say what the same run and a branch may change. With another number of ranks, the same run
// must keep the global batch: ranks times data.batch_size.
std::vector<Difference> compare_plans(const Plan& saved, const Plan& now,
                                      Resume resume = Resume::same_run,
                                      const RankCounts& ranks = {});

// ---- data.batch_size: auto. A larger batch keeps a device busier, up to a size that depends on
// model and device; beyond that size, it only takes memory.

struct BatchTrial {
  double samples_per_s = 0;
  int64_t peak_bytes = 0;  // peak bytes of all tensors
};

struct BatchChoice {
  int64_t batch = 0;
  std::string reason;  // the sizes tried, and why the next one is not taken
};

// Doubles the batch size from 16 while that makes the trial 5 % faster per sample, twice its peak
// fits into `bytes`, and there are as many samples. A trial that throws Error with Exit::memory
// ends the search.
BatchChoice grow_batch(int64_t samples, int64_t bytes,
                       const std::function<BatchTrial(int64_t batch)>& try_out);

// Replaces data.batch_size: auto by the number that the saved run found, or by a new one. A trial
// is forward and backward of the model on zeros, without an update; the tensors may take 80 % of
// the memory that is free. Searches for no kernels. Throws Error (exit 2) for several ranks.
void settle_batch_size(Config& config, const std::optional<Loaded>& saved,
                       std::vector<std::string>& notes);

// ---- lines that a run prints at its start and at its end

using Lines = std::vector<std::string>;

std::string toggle_line(const Config& config);  // toggles that are on
Lines summary(const Session& session, const Outcome& outcome);
Scalars totals(const Session& session, const Outcome& outcome);  // for metrics.jsonl

// A toggle that was on. `count`: increase of its footprint.
struct ToggleUse {
  const Toggle* toggle;
  const Value& value;  // value in the Config
  int64_t count = 0;
  bool superseded = false;  // another toggle, which ran, supersedes this one
};
std::vector<ToggleUse> toggle_uses(const Config& config, const Counters& moved);

// Reports toggles that were on and never ran: a warning for those that the user set, a line for
// those that a default or a preset switched on. Skips superseded ones.
Lines idle_toggles(const std::vector<ToggleUse>& uses);

// Returns the content of end.json: {summary, toggles}, as in trainer/state/run_record.h.
Json end_of_run(const Lines& summary, const std::vector<ToggleUse>& uses);

}  // namespace bellows
