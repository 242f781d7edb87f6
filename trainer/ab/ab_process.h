// One arm of a comparison: a process of its own that works only when it has the turn. It gives the
// turn back by stopping itself, after it has written one line to kReportTo: so nothing of it, not
// its loader's workers nor a spinning pool, runs while the other arm is timed.
#pragma once
#include <sys/types.h>
#include <string>
#include <vector>

namespace bellows {

constexpr int kReportTo = 3;  // the descriptor of the pipe that an arm writes to

class ArmProcess {
 public:
  // Starts `command`, found as a shell finds it; its stdout goes nowhere, its stderr to ours. The
  // process is killed when this object goes, and when the calling thread dies, however it dies.
  // `name` is for messages.
  ArmProcess(std::string name, const std::vector<std::string>& command, double timeout_s);
  ~ArmProcess();
  ArmProcess(ArmProcess&&) = delete;

  // Its line, once it has stopped. The first turn began with the process. Throws Error if it ends
  // (exit code: its own, or 9), or has not stopped with a line within the time-out (9).
  std::string turn();
  // After its last turn: its last line, once it has ended well. Throws as above.
  std::string finish();

  const std::string& name() const { return name_; }
  bool stopped() const;  // state T in /proc
  // CPU time that the process has used when the turn was not its own.
  double cpu_seconds_waiting() const { return cpu_waiting_; }

 private:
  void start(const std::vector<std::string>& command, int report_to);
  void resume();
  std::string read_line();
  int wait_for_change(int options);
  void wait_until_stopped();
  [[noreturn]] void explain_end(int status);
  [[noreturn]] void give_up() const;
  double cpu_seconds() const;

  std::string name_;
  double timeout_s_;
  pid_t pid_ = -1;
  int report_ = -1;  // our end of the pipe
  std::string unread_;
  int64_t turns_ = 0;
  double cpu_at_stop_ = 0, cpu_waiting_ = 0;
};

}  // namespace bellows
