#include "trainer/launch/line_pipe.h"
#include <fcntl.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include "core/base/check.h"

namespace bellows {

constexpr size_t kPipeBytes = 1 << 16;  // capacity of a pipe on Linux
constexpr size_t kLongestLine = 1 << 20;

static std::pair<int, int> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(Exit::memory, "pipe: ", std::strerror(errno));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {ends[0], ends[1]};
}

LinePipe::LinePipe() : LinePipe(make_pipe()) {}

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
  if (unread_.size() > kLongestLine || ((over_ || last) && !unread_.empty()))
    lines.push_back(std::exchange(unread_, {}));
  return lines;
}

}  // namespace bellows
