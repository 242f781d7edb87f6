// Runs one training from its config to its summary.
#pragma once
#include "plan/toggle.h"
#include "trainer/state/run_folder.h"

namespace bellows {

struct RunRequest {
  Config config;
  std::string folder;  // "": runs/<name>
  bool overwrite = false;
  std::string resume;  // "latest", a run folder or a checkpoint file; "": a new run
};

// Trains and writes the run folder. Returns the exit code: 0, or 130 or 143 after a signal. Throws
// Error.
int run_training(const RunRequest& request);
// Does everything except training: loads the data, runs one forward and backward. Writes no run
// folder, packs nothing and searches for no kernels. Returns the exit code.
int dry_run_training(const Config& config);

}  // namespace bellows
