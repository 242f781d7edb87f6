#include "trainer/launch/child.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include "core/base/check.h"

namespace bellows {

using Pointers = std::vector<char*>;  // as exec expects: the last one is null

static Pointers pointers_to(const std::vector<std::string>& words) {
  Pointers all;
  for (const std::string& word : words) all.push_back(const_cast<char*>(word.c_str()));
  all.push_back(nullptr);
  return all;
}

static std::string_view name_in(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

static Pointers environment_with(const std::vector<std::string>& variables) {
  Pointers all = pointers_to(variables);
  for (char** known = environ; *known; ++known)
    if (std::ranges::none_of(variables, [&](const std::string& variable) {
          return name_in(variable) == name_in(*known);
        }))
      all.insert(all.end() - 1, *known);
  return all;
}

// Async-signal-safe. Returns only on failure.
static void execute(const Pointers& argv, const Pointers& variables) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvpe(argv[0], argv.data(), variables.data());
}

pid_t start_child(const Command& command, const std::vector<Redirection>& redirections,
                  Group group) {
  const Pointers argv = pointers_to(command.argv), variables = environment_with(command.variables);
  const pid_t parent = getpid(), child = fork();
  if (child < 0)
    fail(Exit::memory, "fork: ", std::strerror(errno), "; raise the limit (ulimit -u)");
  if (child > 0) {
    if (group == Group::own) setpgid(child, child);  // the child does it, too: either may be first
    return child;
  }
  // Only async-signal-safe calls until exec: the child has none of the other threads, but may have
  // inherited locks that they held.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before prctl
  if (group == Group::own) {
    setpgid(0, 0);
    signal(SIGTTOU, SIG_IGN);  // output to the terminal would stop a background group
  }
  for (const auto& [ours, its] : redirections)
    if (ours == its)
      fcntl(its, F_SETFD, 0);  // dup2 of a descriptor onto itself would keep its O_CLOEXEC
    else
      dup2(ours, its);
  execute(argv, variables);
  _exit(127);
}

void become(const Command& command) {
  const Pointers argv = pointers_to(command.argv), variables = environment_with(command.variables);
  execute(argv, variables);
  fail(Exit::usage, command.argv[0], ": cannot be executed: ", std::strerror(errno));
}

constexpr size_t kPipeBytes = 1 << 16;  // capacity of a pipe on Linux

static std::pair<int, int> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(Exit::memory, "pipe: ", std::strerror(errno));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {ends[0], ends[1]};
}

LinePipe::LinePipe(size_t longest) : LinePipe(make_pipe(), longest) {}

void LinePipe::close_writer() { close(writer_.release()); }

std::vector<std::string> LinePipe::read_lines(bool last) {
  std::vector<std::string> lines;
  char buffer[kPipeBytes];
  const ssize_t count = read(reader_.get(), buffer, sizeof(buffer));
  over_ = count == 0;
  if (count > 0) unread_.append(buffer, count);
  size_t begin = 0;
  for (size_t end; (end = unread_.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(unread_.substr(begin, end - begin));
  unread_.erase(0, begin);
  if (unread_.size() > longest_ || ((over_ || last) && !unread_.empty()))
    lines.push_back(std::exchange(unread_, {}));
  return lines;
}

// A bound socket that does not listen does not exclude one that does, if both set SO_REUSEADDR.
ReservedPort::ReservedPort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int yes = 1;
  sockaddr_in address = {};
  socklen_t size = sizeof(address);
  address.sin_family = AF_INET;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (bind(socket_.get(), generic, size) != 0 || getsockname(socket_.get(), generic, &size) != 0)
    fail(Exit::distributed, "launch: no free port: ", std::strerror(errno),
         "; name one with --port");
  number_ = ntohs(address.sin_port);
}

}  // namespace bellows
