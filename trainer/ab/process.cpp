#include "trainer/ab/process.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <ctime>
#include "core/base/trace.h"
#include "core/base/words.h"
#include "core/device/topology.h"

namespace bellows {

constexpr int64_t kLookMs = 1000;  // how often to check that the arm is alive
constexpr double kExitS = 10;      // for an arm that has closed its pipe to end

ArmProcess::ArmProcess(std::string name, const std::vector<std::string>& command, double timeout_s,
                       std::function<void()> while_waiting)
    : name_(std::move(name)), timeout_s_(timeout_s), while_waiting_(std::move(while_waiting)) {
  const Descriptor nowhere(open("/dev/null", O_WRONLY | O_CLOEXEC));
  pid_ = start_child({.argv = command},
                     {{nowhere.get(), STDOUT_FILENO}, {report_.writer(), kReportFd}}, Group::ours);
  report_.close_writer();
}

ArmProcess::~ArmProcess() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);  // also ends a stopped process
  waitpid(pid_, nullptr, 0);
}

std::string ArmProcess::run_slice() {
  if (slices_ > 0) resume();
  std::string line = read_line();
  const Change change = wait_for_change(timeout_s_, true);
  if (change == Change::none) time_out();
  if (change == Change::ended) explain_end();
  cpu_at_stop_ = cpu_seconds();
  ++slices_;
  return line;
}

void ArmProcess::resume() {
  cpu_waiting_ += cpu_seconds() - cpu_at_stop_;
  if (pid_ > 0) kill(pid_, SIGCONT);
}

std::string ArmProcess::finish() {
  resume();
  std::string line = read_line();
  if (wait_for_change(timeout_s_, false) == Change::none) time_out();
  if (*end_ != 0) explain_end();
  return line;
}

static int64_t ns_from_now(double seconds) {
  return trace::now_ns() + int64_t(std::min(seconds, 1e9) * 1e9);
}

// Sleeps in poll until there is data, because the running arm shares the machine with this process.
std::string ArmProcess::read_line() {
  const int64_t deadline = ns_from_now(timeout_s_);
  while (lines_.empty()) {
    const int64_t left_ms = (deadline - trace::now_ns()) / 1'000'000;
    if (left_ms <= 0) time_out();
    pollfd readable = {report_.reader(), POLLIN, 0};
    const int ready = poll(&readable, 1, end_ ? 0 : static_cast<int>(std::min(left_ms, kLookMs)));
    if (ready <= 0) {
      while_waiting_();
      // The pipe does not show the end of an arm whose own children still hold it. Output that the
      // arm wrote before its end is read first.
      if (end_) explain_end();
      change(false);
      continue;
    }
    for (std::string& line : report_.read_lines(false)) lines_.push_back(std::move(line));
    if (!report_.over()) continue;
    if (wait_for_change(std::min(timeout_s_, kExitS), false) == Change::ended) explain_end();
    fail(Exit::internal, name_, " closed its report pipe", when(),
         " but did not end, and was killed");
  }
  std::string line = std::move(lines_.front());
  lines_.pop_front();
  return line;
}

// Returns without waiting. Stops are reported once, and only with `or_stop`.
ArmProcess::Change ArmProcess::change(bool or_stop) {
  int status = 0;
  if (!end_ && waitpid(pid_, &status, WNOHANG | (or_stop ? WUNTRACED : 0)) == pid_) {
    if (WIFSTOPPED(status)) return Change::stopped;
    end_ = status;
    pid_ = -1;
  }
  return end_ ? Change::ended : Change::none;
}

// waitpid has no time-out, so this polls once per millisecond. The wait is short: an arm stops or
// exits right after its last line.
ArmProcess::Change ArmProcess::wait_for_change(double most_s, bool or_stop) {
  const int64_t deadline = ns_from_now(most_s);
  while (true) {
    const Change seen = change(or_stop);
    if (seen != Change::none || trace::now_ns() > deadline) return seen;
    while_waiting_();
    usleep(1000);
  }
}

std::string ArmProcess::when() const { return " after " + count_of(slices_, "time slice"); }

// A terminal signals the arms too, and one that starts cannot handle that yet.
void ArmProcess::explain_end() const {
  while_waiting_();
  if (WIFSIGNALED(*end_))
    fail(Exit::internal, name_, " was killed by signal ", WTERMSIG(*end_), when());
  const int code = WEXITSTATUS(*end_);
  if (code == 0) fail(Exit::internal, name_, " ended too early,", when());
  fail(static_cast<Exit>(code), name_, " ended with exit code ", code, when());
}

void ArmProcess::time_out() const {
  fail(Exit::internal, name_, " did not finish a time slice within ", timeout_s_,
       " s and was killed; --timeout allows more");
}

bool ArmProcess::stopped() const {
  const std::string stat = first_line(cat("/proc/", pid_, "/stat"));
  const size_t name_end = stat.rfind(") ");  // the process name before it may contain any character
  return name_end != std::string::npos && stat[name_end + 2] == 'T';
}

double ArmProcess::cpu_seconds() const {
  clockid_t clock = {};
  timespec used = {};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &used) != 0)
    return cpu_at_stop_;  // the process is gone; the next read reports it
  return double(used.tv_sec) + 1e-9 * double(used.tv_nsec);
}

}  // namespace bellows
