// One arm of a comparison: a child process that runs only during its turns. It ends a turn by
// writing one line to kReportTo and stopping itself (SIGSTOP). So none of its threads, neither
// loader workers nor a spinning pool, runs while the other arm is timed. Not thread-safe.
#pragma once
#include <sys/types.h>
#include <string>
#include <vector>

namespace bellows {

constexpr int kReportTo = 3;  // descriptor of the pipe that an arm writes to

class ArmProcess {
 public:
  // Starts `command`, which is looked up in PATH. Its stdout is discarded, its stderr is ours. The
  // process is killed by the destructor and when the calling thread dies. `name` is used in
  // messages. `timeout_s` limits each turn.
  ArmProcess(std::string name, const std::vector<std::string>& command, double timeout_s);
  ~ArmProcess();
  ArmProcess(ArmProcess&&) = delete;

  // Runs one turn and returns the line that it reported, after the process has stopped. The first
  // turn starts with the process. Throws Error if the process ends (its exit code; 9 if that is 0
  // or a signal killed it), or if it has not reported and stopped within the time-out (9).
  std::string turn();
  // Resumes the process after its last turn and returns its last line after it has exited with 0.
  // Throws as turn() does.
  std::string finish();

  const std::string& name() const { return name_; }
  bool stopped() const;  // true in state T of /proc/<pid>/stat
  // CPU time that the process has used outside its turns, in seconds.
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
  int report_ = -1;  // read end of the pipe
  std::string unread_;
  int64_t turns_ = 0;
  double cpu_at_stop_ = 0, cpu_waiting_ = 0;
};

}  // namespace bellows
