// A folder in which a printed command finds what it names: the configs, small data sets in their
// published formats, a trained run, weights to start from.
#pragma once
#include <filesystem>
#include <string>

namespace bellows {

struct Said {
  int code = 0;
  std::string text;  // stdout and stderr
};

class Workspace {
 public:
  // Makes what `command` names, and nothing else.
  explicit Workspace(const std::string& command);
  ~Workspace();
  Workspace(Workspace&&) = delete;

  // Through a shell, in the folder, with the programs in its PATH and one thread.
  Said run(const std::string& command) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace bellows
