// Temporary folder with the files that a printed command names: configs, small data sets in their
// published formats, a trained run, weights to start from.
#pragma once
#include <string>
#include "tests/temp_folder.h"

namespace bellows {

struct Said {
  int code = 0;
  std::string text;  // stdout and stderr
};

class Workspace {
 public:
  // Creates only the files that `command` names.
  explicit Workspace(const std::string& command);

  // Runs it in a shell in the folder, with the built programs in PATH and one thread.
  Said run(const std::string& command) const;

 private:
  TempFolder folder_;
};

}  // namespace bellows
