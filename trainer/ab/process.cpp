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

constexpr int kLookMs = 1000;  // how often to check that the arm is alive
constexpr double kExitS = 10;  // limit for an arm to end after it has closed its pipe

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
  std::string line = run_until(State::stopped);
  cpu_at_stop_ = cpu_seconds();
  ++slices_;
  return line;
}

std::string ArmProcess::finish() { return run_until(State::ended); }

static int64_t ns_from_now(double seconds) {
  return trace::now_ns() + int64_t(std::min(seconds, 1e9) * 1e9);
}

// Sleeps in poll until there is a line, because the running arm shares the machine with this
// process. The arm stops or exits right after its line, and waitpid has no time-out, so this then
// looks once per millisecond.
std::string ArmProcess::run_until(State wanted) {
  if (slices_ > 0) {
    cpu_waiting_ += cpu_seconds() - cpu_at_stop_;
    if (pid_ > 0) kill(pid_, SIGCONT);
  }
  int64_t due = ns_from_now(timeout_s_);
  while (true) {
    const int64_t left_ms = (due - trace::now_ns()) / 1'000'000;
    if (left_ms < 0) time_out();
    const bool reads = lines_.empty() && !report_.over();
    pollfd output = {reads ? report_.reader() : -1, POLLIN, 0};
    const auto wait_ms = static_cast<int>(std::min<int64_t>(left_ms + 1, reads ? kLookMs : 1));
    if (poll(&output, 1, end_ ? 0 : wait_ms) > 0) {
      for (std::string& line : report_.read_lines(false)) lines_.push_back(std::move(line));
      if (lines_.empty() && report_.over()) due = std::min(due, ns_from_now(kExitS));
      continue;
    }
    while_waiting_();
    // The pipe does not show the end of an arm whose own children still hold it. Output that the
    // arm wrote before its end is read first.
    if (end_ && lines_.empty()) explain_end();
    const State state = look(!lines_.empty() && wanted == State::stopped);
    if (!lines_.empty() && state == wanted) break;
    if (!lines_.empty() && state == State::ended) explain_end();
  }
  if (end_ && *end_ != 0) explain_end();
  std::string line = std::move(lines_.front());
  lines_.pop_front();
  return line;
}

// Returns the state without waiting. A stop is reported once.
ArmProcess::State ArmProcess::look(bool notice_stop) {
  int status = 0;
  if (!end_ && waitpid(pid_, &status, WNOHANG | (notice_stop ? WUNTRACED : 0)) == pid_) {
    if (WIFSTOPPED(status)) return State::stopped;
    end_ = status;
    pid_ = -1;
  }
  return end_ ? State::ended : State::running;
}

std::string ArmProcess::when() const { return " after " + count_of(slices_, "time slice"); }

// A terminal also signals the arms, and an arm that is starting cannot handle that yet.
void ArmProcess::explain_end() const {
  while_waiting_();
  if (WIFSIGNALED(*end_))
    fail(Exit::internal, name_, " was killed by signal ", WTERMSIG(*end_), when());
  const int code = WEXITSTATUS(*end_);
  if (code == 0) fail(Exit::internal, name_, " ended too early,", when());
  fail(static_cast<Exit>(code), name_, " ended with exit code ", code, when());
}

void ArmProcess::time_out() const {
  if (lines_.empty() && report_.over())
    fail(Exit::internal, name_, " closed its report pipe", when(),
         " but did not end, and was killed");
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
    return cpu_at_stop_;  // the process has ended, as the next read reports
  return double(used.tv_sec) + 1e-9 * double(used.tv_nsec);
}

}  // namespace bellows
