// Limits profiling to updates [from, to) of a run. Each update is a range named ProfilerStep#N,
// which contains the ranges of phases, ops and modules.
#pragma once
#include <optional>
#include "core/base/trace.h"
#include "plan/run_options.h"

namespace bellows {

class ProfileWindow {
 public:
  explicit ProfileWindow(const ProfileOptions& options) : options_(options) {}
  ~ProfileWindow();

  // Call before and after update number `update`, counted from 0.
  void begin(int64_t update);
  void end(int64_t update);
  bool ends_the_run(int64_t updates) const;  // true after the window, with profile.exit_after

 private:
  ProfileOptions options_;
  bool marking_ = false;
  std::string name_;  // names the open range
  std::optional<trace::Range> step_;
};

// Returns the command that records the window, printed at start-up; "" without a window.
std::string profiler_command(const ProfileOptions& options, const std::string& name);

}  // namespace bellows
