#include "data/file.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include "core/check.h"
#include "core/trace.h"

namespace bellows {

namespace {
constexpr off_t kMost = UINT32_MAX;

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};
}  // namespace

std::vector<uint8_t> read_file(const std::string& path) {
  static trace::Counter& opens = trace::counter("data.file_opens");
  opens.add();
  // Non-blocking, so that opening a pipe without a writer does not wait for one.
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) fail(Exit::data, path, ": ", std::strerror(errno));
  struct stat status;
  if (fstat(file.fd, &status) != 0) fail(Exit::storage, path, ": ", std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(Exit::data, path, ": not a regular file");
  if (status.st_size > kMost) fail(Exit::data, path, ": larger than 4 GiB");
  std::vector<uint8_t> bytes(status.st_size);
  for (size_t have = 0; have < bytes.size();) {
    const ssize_t n = read(file.fd, bytes.data() + have, bytes.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(Exit::storage, path, ": ", std::strerror(errno));
    if (n == 0) fail(Exit::data, path, ": became shorter while it was read");
    have += n;
  }
  return bytes;
}

std::string first_file(const std::string& root, std::initializer_list<std::string> paths) {
  std::error_code unreadable;
  for (const std::string& path : paths)
    if (std::filesystem::exists(root + "/" + path, unreadable)) return root + "/" + path;
  return "";
}

}  // namespace bellows
