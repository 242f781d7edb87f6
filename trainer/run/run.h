// A training run from its config to its last line.
#pragma once
#include "plan/toggle.h"
#include "trainer/state/run_folder.h"

namespace bellows {

struct RunRequest {
  Config config;
  std::string folder;  // "": runs/<name>
  bool overwrite = false;
  std::string resume;  // "latest", a run folder or a checkpoint; "": a new run
};

// Returns the exit code: 0, or 130 and 143 after a signal. Throws Error.
int run_training(const RunRequest& request);
// Everything but training: loads the data, one forward and backward, writes nothing.
int rehearse(const Config& config);

}  // namespace bellows
