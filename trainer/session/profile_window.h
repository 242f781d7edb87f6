// The part of a run that a profiler is to see: updates [from, to), each a range named
// ProfilerStep#N, with those of phases, ops and modules inside.
#pragma once
#include <optional>
#include "core/base/trace.h"
#include "plan/run_options.h"

namespace bellows {

class ProfileWindow {
 public:
  explicit ProfileWindow(const ProfileOptions& options) : options_(options) {}
  ~ProfileWindow();

  // Before the update of that number, from 0, and after it.
  void begin(int64_t update);
  void end(int64_t update);
  bool ends_the_run(int64_t updates) const;  // after so many of them

 private:
  ProfileOptions options_;
  bool marking_ = false;
  std::string name_;  // of the range that is open
  std::optional<trace::Range> step_;
};

// The command that records the window, for whoever starts a run with one; "" without a window.
std::string profiler_command(const ProfileOptions& options, const std::string& name);

}  // namespace bellows
