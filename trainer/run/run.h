// Runs one training from its config to its summary.
#pragma once
#include "plan/toggle.h"
#include "trainer/state/run_folder.h"
#include "trainer/state/training_state.h"

namespace bellows {

struct RunRequest {
  Config config;
  std::string folder;  // "": runs/<name>
  bool overwrite = false;
  std::string resume;  // "latest", a run folder or a checkpoint file; "": a new run
};

// Trains and writes the run folder; with several ranks, rank 0 alone writes and prints. Returns the
// exit code: 0, or 130 or 143 after a signal. Throws Error.
int run_training(RunRequest request);
// Does everything except training: loads data and checkpoint, runs one forward and backward. Writes
// no run folder and searches for no kernels. Returns the exit code.
int dry_run_training(RunRequest request);

// Compares the plan of a resumed run with the plan in its checkpoint. Returns the options that
// differ. Throws Error (exit 2) with the reason for an option that cannot
// change. The same run must keep seed, model, data, batch size, loss and optimizer. A branch must
// keep model and optimizer rule, because its checkpoint holds their state. Changed shapes of
// tensors are found by restore(). With another number of ranks, the same run must keep the global
// batch: ranks times data.batch_size.
struct RankCounts {
  int64_t saved = 1, now = 1;
};
std::vector<Difference> compare_plans(const Plan& saved, const Plan& now,
                                      Resume resume = Resume::same_run,
                                      const RankCounts& ranks = {});

}  // namespace bellows
