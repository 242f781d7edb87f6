#include "trainer/launch/rank_process.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include "core/base/check.h"
#include "core/base/output.h"

namespace bellows {

constexpr size_t kLastLines = 20;

RankProcess::RankProcess(const RankCommand& command, RankOutput output)
    : command_(command), output_(output) {
  if (output == RankOutput::ours) return;
  for (const auto print : {say, say_error}) streams_.push_back(std::make_unique<Stream>(print));
}

RankProcess::~RankProcess() {
  if (!running()) return;
  send(SIGKILL);
  waitpid(process_, nullptr, 0);
}

void RankProcess::start() {
  const Descriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::vector<Redirection> redirections = {{nothing.get(), STDIN_FILENO}};
  for (const int its : {STDOUT_FILENO, STDERR_FILENO})
    if (!streams_.empty()) redirections.push_back({streams_[its - 1]->pipe.writer(), its});
  process_ = start_child(command_.command, redirections, Group::own);
  end_.emplace(static_cast<int>(syscall(SYS_pidfd_open, process_, 0)));
  for (const auto& stream : streams_) stream->pipe.close_writer();
}

void RankProcess::send(int signal) const {
  if (running()) kill(-process_, signal);
}

bool RankProcess::has_exited() const {
  siginfo_t info = {};
  return running() && waitid(P_PID, process_, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == process_;
}

void RankProcess::reap() {
  send(SIGKILL);  // before waitpid, after which another process may get the number
  int status = 0;
  waitpid(process_, &status, 0);
  process_ = -1;
  end_.reset();
  signaled_ = WIFSIGNALED(status);
  code_ = signaled_ ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// ---- output

void RankProcess::watch(std::vector<pollfd>& all) const {
  if (end_) all.push_back({end_->get(), POLLIN, 0});
  for (const auto& stream : streams_)
    if (running() && !stream->pipe.over()) all.push_back({stream->pipe.reader(), POLLIN, 0});
}

void RankProcess::read_output() {
  for (const auto& stream : streams_)
    for (const std::string& line : stream->pipe.read_lines(!running())) {
      if (output_ == RankOutput::prefix) stream->print(prefixed(line));
      last_lines_.push_back(line);
      if (last_lines_.size() > kLastLines) last_lines_.pop_front();
    }
}

void RankProcess::print_last_lines() const {
  for (const std::string& line : last_lines_) say_error(prefixed(line));
}

std::string RankProcess::prefixed(const std::string& line) const {
  return cat("[", rank(), "] ", line);
}

}  // namespace bellows
