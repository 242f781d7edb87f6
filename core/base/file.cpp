#include "core/base/file.h"
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include "core/base/crc32c.h"

namespace bellows {

namespace fs = std::filesystem;

namespace {

const char* advice_for(int error) {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  const bool refused = error == EACCES || error == EPERM || error == EROFS;
  return full      ? "; free some space or choose another folder"
         : refused ? "; choose a folder that you may write to"
                   : "";
}

[[noreturn]] void fail_call(Exit exit, const Path& path, const char* call,
                            const char* advice = nullptr, int error = errno) {
  if (!advice) advice = exit == Exit::storage ? advice_for(error) : "";
  fail(error == ENOMEM ? Exit::memory : exit, printable(path.native()), ": ", call, ": ",
       std::generic_category().message(error), advice);
}

template <class Call> auto retried(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

int open_file(const Path& path, int flags, mode_t mode = 0) {
  return retried([&] { return ::open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY, mode); });
}

void write_all(const Descriptor& to, const Path& path, Bytes bytes) {
  if (!write_fully(to.get(), bytes)) fail_call(Exit::storage, path, "write");
}

// A failed fsync is not retried: the kernel may have dropped the pages that it could not write.
void sync(const Descriptor& file, const Path& path) {
  if (retried([&] { return ::fsync(file.get()); }) < 0) fail_call(Exit::storage, path, "fsync");
}

// Linux frees the descriptor even when close fails, EINTR included.
void close(Descriptor& file, const Path& path) {
  if (::close(file.release()) < 0 && errno != EINTR) fail_call(Exit::storage, path, "close");
}

constexpr const char* kTemporary = ".bellows-tmp";

// Paths of this process's temporary files.
struct Live {
  std::mutex mutex;  // never held during disk I/O, because the signal thread takes it
  std::set<Path> paths;
  std::atomic<int> made = 0;
};
Live& live() {
  static Live& all = *new Live;  // never destroyed: the signal thread may use it during exit
  return all;
}

// Takes the lock that marks a temporary file as one with a live writer. Returns false if
// remove_temporaries() was faster. Without locks in the file system, no temporary file is ever
// removed.
bool hold(int descriptor) {
  struct stat info = {};
  if (!try_lock(descriptor) && errno == EWOULDBLOCK) return false;
  return ::fstat(descriptor, &info) == 0 && info.st_nlink > 0;
}

// A new file next to `target`. The destructor removes it unless it was renamed.
class Temporary {
 public:
  explicit Temporary(const Path& target) : file_(create(target)), lock_(duplicate(file_)) {}
  ~Temporary() {
    if (!path_.empty()) ::unlink(path_.c_str());
    forget();
  }
  Temporary(Temporary&&) = delete;
  Descriptor& file() { return file_; }
  const Path& path() const { return path_; }
  void rename_to(const Path& target) {
    if (retried([&] { return ::rename(path_.c_str(), target.c_str()); }) < 0)
      fail_call(Exit::storage, target, "rename");
    forget();
    path_.clear();
  }

 private:
  // O_EXCL and O_NOFOLLOW: no other program can plant a file or a link under the name. An existing
  // file of that name is from a killed writer, so the next name is tried.
  int create(const Path& target) {
    for (int attempt = 0; attempt < 100; ++attempt) {
      Path path = target;
      path += fmt::format(".{}-{}{}", ::getpid(), live().made++, kTemporary);
      const int descriptor = open_file(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
      if (descriptor >= 0 && hold(descriptor)) {
        path_ = path;
        const std::lock_guard lock(live().mutex);
        live().paths.insert(path);
        return descriptor;
      }
      if (descriptor >= 0) {
        ::close(descriptor);
      } else if (errno != EEXIST) {
        break;
      }
    }
    fail_call(Exit::storage, target, "open");
  }
  void forget() const {
    const std::lock_guard lock(live().mutex);
    live().paths.erase(path_);
  }
  // The second descriptor keeps the lock while the file is closed, read back and renamed.
  static int duplicate(const Descriptor& file) { return ::fcntl(file.get(), F_DUPFD_CLOEXEC, 0); }

  Path path_;  // before file_, whose initializer sets it
  Descriptor file_, lock_;
};

uint32_t checksum(const Path& path) {
  const InputFile file(path, Exit::storage);
  std::vector<std::byte> block(1 << 20);
  uint32_t crc = 0;
  for (int64_t at = 0; at < file.size(); at += std::ssize(block)) {
    const auto part = std::span(block).first(std::min(file.size() - at, std::ssize(block)));
    file.read(at, part);
    crc = crc32c(part, crc);
  }
  return crc;
}

void sync_folder(const Path& folder) {
  const Descriptor descriptor(open_file(folder, O_RDONLY | O_DIRECTORY));
  if (descriptor.get() < 0) fail_call(Exit::storage, folder, "open");
  sync(descriptor, folder);
}

}  // namespace

bool write_fully(int descriptor, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t n = retried([&] { return ::write(descriptor, bytes.data(), bytes.size()); });
    if (n >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(n));
      continue;
    }
    pollfd room = {descriptor, POLLOUT, 0};
    if (errno != EAGAIN || retried([&] { return ::poll(&room, 1, -1); }) < 0) return false;
  }
  return true;
}

bool try_lock(int descriptor) {
  return retried([&] { return ::flock(descriptor, LOCK_EX | LOCK_NB); }) == 0;
}

Kind kind_of(const Path& path, Exit exit) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return Kind::nothing;
    fail_call(exit, path, "stat");
  }
  return S_ISREG(info.st_mode) ? Kind::file : S_ISDIR(info.st_mode) ? Kind::folder : Kind::other;
}

std::vector<Path> paths_in(const Path& folder, Exit exit) {
  std::vector<Path> paths;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    paths.push_back(at->path());
  if (error) fail_call(exit, folder, "opendir", nullptr, error.value());
  std::ranges::sort(paths);
  return paths;
}

void make_folders(const Path& folder, const char* advice) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_call(Exit::storage, folder, "mkdir", advice, error.value());
}

// Renaming onto a device node would remove it. /dev/stdout is a link that other programs rely on.
static void refuse_special(const Path& path) {
  std::error_code none;
  const bool magic = fs::read_symlink(path, none).native().starts_with("/proc/");
  if (magic || kind_of(path, Exit::storage) == Kind::other)
    fail(Exit::storage, printable(path.native()), ": not a regular file; choose another name");
}

void write_file(const Path& path, std::span<const Bytes> pieces) {
  refuse_special(path);
  Temporary temporary(path);
  uint32_t crc = 0;
  for (const Bytes piece : pieces) {
    write_all(temporary.file(), path, piece);
    crc = crc32c(piece, crc);
  }
  sync(temporary.file(), path);
  close(temporary.file(), path);
  if (checksum(temporary.path()) != crc)
    fail(Exit::storage, printable(path.native()),
         ": reads back other than it was written; check the disk");
  temporary.rename_to(path);
  sync_folder(path.has_parent_path() ? path.parent_path() : ".");
}

void remove_temporaries(const Path& folder) {
  if (kind_of(folder, Exit::storage) == Kind::nothing) return;
  for (const Path& path : paths_in(folder, Exit::storage)) {
    if (path.extension() != kTemporary) continue;
    const Descriptor file(open_file(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK));
    if (try_lock(file.get())) ::unlink(path.c_str());
  }
}

void remove_own_temporaries() {
  std::set<Path> paths;
  {
    const std::lock_guard lock(live().mutex);
    paths = live().paths;
  }
  for (const Path& path : paths) ::unlink(path.c_str());
}

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

// O_NONBLOCK: opening a pipe would wait for its other end.
static int open_regular(const Path& path, int flags, Exit exit) {
  Descriptor file(open_file(path, flags | O_NONBLOCK, 0666));
  struct stat info = {};
  if (file.get() >= 0) {
    if (::fstat(file.get(), &info) < 0) fail_call(exit, path, "fstat");
  } else if (errno != ENXIO) {  // ENXIO: a pipe without a reader, or a socket
    fail_call(exit, path, "open");
  }
  if (!S_ISREG(info.st_mode)) fail(exit, printable(path.native()), ": not a regular file");
  return file.release();
}

Descriptor open_own_file(const Path& path, int access) {
  return Descriptor(open_regular(path, access | O_CREAT | O_NOFOLLOW, Exit::storage));
}

InputFile::InputFile(const Path& path, Exit exit)
    : path_(path), exit_(exit), descriptor_(open_regular(path, O_RDONLY, exit)) {
  struct stat info = {};
  if (::fstat(descriptor_.get(), &info) < 0) fail_call(exit, path, "fstat");
  size_ = info.st_size;
}

void InputFile::read(int64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t n =
        retried([&] { return ::pread(descriptor_.get(), to.data(), to.size(), offset); });
    if (n < 0) fail_call(Exit::storage, path_, "read");
    if (n == 0)
      fail(exit_, printable(path_.native()), ": ends at byte ", offset, ", ", to.size(), " early");
    offset += n;
    to = to.subspan(static_cast<size_t>(n));
  }
}

std::string read_file(const Path& path, int64_t max_bytes, Exit exit) {
  const InputFile file(path, exit);
  if (file.size() > max_bytes)
    fail(exit, printable(path.native()), ": ", file.size(), " bytes, at most ", max_bytes,
         " are read");
  std::string content(static_cast<size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(content)));
  return content;
}

// Returns the number of bytes up to and including the last newline. The rest may be long: a power
// cut leaves megabytes of zeros.
static int64_t whole_lines(const Path& path) {
  constexpr int64_t kMostCut = int64_t{1} << 26;
  const InputFile file(path, Exit::storage);
  std::string rest(std::min(file.size(), kMostCut), '\0');
  file.read(file.size() - std::ssize(rest), std::as_writable_bytes(std::span(rest)));
  const size_t last = rest.rfind('\n');
  if (last == rest.npos && file.size() > kMostCut)
    fail(Exit::storage, printable(path.native()), ": no line ends in its last ", kMostCut >> 20,
         " MiB; it is not a log, move it away");
  return last == rest.npos ? 0 : file.size() - std::ssize(rest) + static_cast<int64_t>(last) + 1;
}

LineWriter::LineWriter(const Path& path)
    : path_(path), descriptor_(open_own_file(path, O_WRONLY | O_APPEND)) {
  if (::ftruncate(descriptor_.get(), whole_lines(path)) < 0)
    fail_call(Exit::storage, path, "ftruncate");
}

void LineWriter::write(std::string line) {
  line += '\n';
  write_all(descriptor_, path_, bytes_of(line));
}

FileLock::FileLock(const Path& path) : path_(path), file_(open_own_file(path, O_RDWR)) {}

bool FileLock::try_take() {
  if (!try_lock(file_.get())) {
    if (errno == EWOULDBLOCK) return false;
    fail_call(Exit::storage, path_, "flock", "");
  }
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const std::string owner = cat("process ", getpid(), " on ", host);
  const auto size = static_cast<ssize_t>(owner.size());
  if (ftruncate(file_.get(), 0) != 0 || pwrite(file_.get(), owner.data(), owner.size(), 0) != size)
    fail_call(Exit::storage, path_, "write", "");
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
