#include "core/base/file_lock.h"
#include <fcntl.h>
#include <unistd.h>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace bellows {

[[noreturn]] static void fail_lock(const Path& path, const char* call) {
  const int error = errno;
  fail(Exit::storage, printable(path.native()), ": ", call, ": ", std::strerror(error));
}

FileLock::FileLock(const Path& path) : path_(path), file_(open_own_file(path, O_RDWR)) {}

bool FileLock::try_take() {
  if (!try_lock(file_.get())) {
    if (errno == EWOULDBLOCK) return false;
    fail_lock(path_, "flock");
  }
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const std::string owner = cat("process ", getpid(), " on ", host);
  const auto size = static_cast<ssize_t>(owner.size());
  if (ftruncate(file_.get(), 0) != 0 || pwrite(file_.get(), owner.data(), owner.size(), 0) != size)
    fail_lock(path_, "write");
  return true;
}

// Polls, because flock() has no timeout.
bool FileLock::take_within(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (!try_take()) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

std::string FileLock::owner() const {
  char text[128];
  const ssize_t size = pread(file_.get(), text, sizeof text, 0);
  return size > 0 ? printable({text, static_cast<size_t>(size)}) : "another process";
}

}  // namespace bellows
