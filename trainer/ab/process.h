// One arm of a comparison: a child process that runs only during its time slices. It ends a slice
// by writing one line to kReportFd and stopping itself (SIGSTOP). So none of its threads, neither
// loader workers nor a spinning pool, runs while the other arm is timed. Not thread-safe.
#pragma once
#include <deque>
#include <functional>
#include <optional>
#include "trainer/launch/child.h"

namespace bellows {

constexpr int kReportFd = 3;  // descriptor of the pipe that an arm writes to

class ArmProcess {
 public:
  // Starts `command`, which is looked up in PATH. Its stdout is discarded, its stderr is ours. The
  // process is killed by the destructor and when the calling thread dies. `name` begins
  // messages. `timeout_s` limits each time slice. `while_waiting` is called at least once per
  // second while this object waits for the process; it may throw.
  ArmProcess(
      std::string name, const std::vector<std::string>& command, double timeout_s,
      std::function<void()> while_waiting = [] {});
  ~ArmProcess();
  ArmProcess(ArmProcess&&) = delete;

  // Runs one time slice and returns the line that it reported, after the process has stopped. The
  // first slice starts with the process. Throws Error if the process ends (its exit code; 9 if that
  // is 0 or a signal killed it), if it closes the pipe (9), or if it has not reported and stopped
  // within the time-out (9).
  std::string run_slice();
  // Resumes the process after its last slice and returns its last line after it has exited with 0.
  // Throws as run_slice() does.
  std::string finish();

  bool stopped() const;  // true in state T of /proc/<pid>/stat
  // CPU time that the process has used outside its slices, in seconds.
  double cpu_seconds_waiting() const { return cpu_waiting_; }

 private:
  enum class State { running, stopped, ended };

  std::string run_until(State wanted);
  State look(bool notice_stop);
  [[noreturn]] void explain_end() const;
  [[noreturn]] void time_out() const;
  std::string when() const;
  double cpu_seconds() const;

  std::string name_;
  double timeout_s_;
  std::function<void()> while_waiting_;
  pid_t pid_ = -1;                 // -1 after it was reaped
  std::optional<int> end_;         // status of waitpid, once it has ended
  LinePipe report_{SIZE_MAX};      // a long run reports all its losses in one line
  std::deque<std::string> lines_;  // lines of report_ not returned yet
  int64_t slices_ = 0;
  double cpu_at_stop_ = 0, cpu_waiting_ = 0;
};

}  // namespace bellows
