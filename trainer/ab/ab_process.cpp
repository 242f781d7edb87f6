#include "trainer/ab/ab_process.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fstream>
#include "core/base/check.h"
#include "core/base/trace.h"

namespace bellows {

ArmProcess::ArmProcess(std::string name, const std::vector<std::string>& command, double timeout_s)
    : name_(std::move(name)), timeout_s_(timeout_s) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(Exit::storage, "pipe: ", std::strerror(errno));
  report_ = ends[0];
  start(command, ends[1]);
  close(ends[1]);
}

ArmProcess::~ArmProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);  // also ends a stopped process
    waitpid(pid_, nullptr, 0);
  }
  close(report_);
}

void ArmProcess::start(const std::vector<std::string>& command, int report_to) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) fail(Exit::storage, "fork: ", std::strerror(errno));
  if (pid_ > 0) return;
  // Only async-signal-safe calls until exec: the child has none of the other threads, but may have
  // inherited locks that they held.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before prctl
  sigset_t none;                        // `command` may rely on an empty mask
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
  // dup2 of a descriptor onto itself would keep its O_CLOEXEC.
  if (report_to == kReportTo)
    fcntl(kReportTo, F_SETFD, 0);
  else
    dup2(report_to, kReportTo);
  execvp(argv[0], argv.data());
  _exit(127);
}

std::string ArmProcess::turn() {
  if (turns_ > 0) resume();
  std::string line = read_line();
  wait_until_stopped();
  cpu_at_stop_ = cpu_seconds();
  ++turns_;
  return line;
}

void ArmProcess::resume() {
  cpu_waiting_ += cpu_seconds() - cpu_at_stop_;
  kill(pid_, SIGCONT);
}

std::string ArmProcess::finish() {
  resume();
  std::string line = read_line();
  const int status = wait_for_change(0);
  if (status != 0) explain_end(status);
  pid_ = -1;
  return line;
}

// Sleeps in poll until there is data, because the running arm shares the machine with this process.
std::string ArmProcess::read_line() {
  const int64_t deadline = trace::now_ns() + static_cast<int64_t>(timeout_s_ * 1e9);
  while (true) {
    if (const size_t end = unread_.find('\n'); end != std::string::npos) {
      const std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    const int64_t left_ms = (deadline - trace::now_ns()) / 1'000'000;
    if (left_ms <= 0) give_up();
    pollfd readable = {report_, POLLIN, 0};
    if (poll(&readable, 1, static_cast<int>(left_ms)) <= 0) continue;
    char buffer[1 << 16];
    const ssize_t count = read(report_, buffer, sizeof(buffer));
    if (count == 0) explain_end(wait_for_change(0));
    if (count > 0) unread_.append(buffer, count);
  }
}

// waitpid has no time-out, so this polls once per millisecond. The wait is short: an arm stops or
// exits right after its last line.
int ArmProcess::wait_for_change(int options) {
  const int64_t deadline = trace::now_ns() + static_cast<int64_t>(timeout_s_ * 1e9);
  int status = 0;
  while (waitpid(pid_, &status, options | WNOHANG) == 0) {
    if (trace::now_ns() > deadline) give_up();
    usleep(1000);
  }
  return status;
}

void ArmProcess::wait_until_stopped() {
  const int status = wait_for_change(WUNTRACED);
  if (!WIFSTOPPED(status)) explain_end(status);
}

void ArmProcess::explain_end(int status) {
  pid_ = -1;  // reaped
  const std::string when = cat(" after ", turns_, " turns");
  if (WIFSIGNALED(status))
    fail(Exit::internal, "ab: ", name_, " was killed by signal ", WTERMSIG(status), when);
  const int code = WEXITSTATUS(status);
  if (code == 0) fail(Exit::internal, "ab: ", name_, " ended too early,", when);
  fail(static_cast<Exit>(code), "ab: ", name_, " ended with exit code ", code, when);
}

void ArmProcess::give_up() const {
  fail(Exit::internal, "ab: ", name_, " gave no answer for ", timeout_s_,
       " s and was killed; --timeout allows more");
}

bool ArmProcess::stopped() const {
  std::string stat;
  std::getline(std::ifstream(cat("/proc/", pid_, "/stat")), stat);
  const size_t name_end = stat.rfind(") ");  // the process name before it may contain any character
  return name_end != std::string::npos && stat[name_end + 2] == 'T';
}

double ArmProcess::cpu_seconds() const {
  clockid_t clock = {};
  timespec used = {};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &used) != 0)
    return cpu_at_stop_;  // the process is gone; the next read reports it
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

}  // namespace bellows
