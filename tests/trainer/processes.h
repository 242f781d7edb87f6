// Processes as /proc shows them.
#pragma once
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>
#include "core/base/check.h"

namespace bellows {

// Waits up to 20 seconds for the condition, and returns whether it became true.
inline bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 4000; ++i) {
    if (condition()) return true;
    usleep(5000);
  }
  return false;
}

// The fields of /proc/<pid>/stat after the name: state, parent, group. Empty without that process.
inline std::vector<std::string> fields_of(pid_t pid) {
  std::string text;
  std::getline(std::ifstream(cat("/proc/", pid, "/stat")), text);
  const size_t name_end = text.rfind(") ");
  if (name_end == text.npos) return {};
  std::istringstream rest(text.substr(name_end + 2));
  return {std::istream_iterator<std::string>(rest), {}};
}

inline bool is_gone(pid_t pid) {
  const auto fields = fields_of(pid);
  return fields.empty() || fields[0] == "Z" || fields[0] == "X";
}

// Waits for a process that this one has adopted. Returns the signal that ended it, 0 if none did.
inline int signal_that_ended(pid_t pid) {
  int status = 0;
  const bool over = eventually([&] { return waitpid(pid, &status, WNOHANG) == pid; });
  return over && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

inline std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    const auto fields = pid ? fields_of(pid) : std::vector<std::string>();
    if (fields.size() > 1 && fields[1] == std::to_string(parent) && !is_gone(pid))
      children.push_back(pid);
  }
  return children;
}

}  // namespace bellows
