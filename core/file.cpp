#include "core/file.h"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <vector>
#include "core/crc32c.h"

namespace bellows {

namespace {

const char* advice(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "; free some space or choose another folder";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; choose a folder that you may write to";
    default:
      return "";
  }
}

[[noreturn]] void fail_call(Exit exit, const Path& path, const char* call) {
  const int error = errno;
  fail(exit, printable(path.native()), ": ", call, ": ", std::generic_category().message(error),
       exit == Exit::storage ? advice(error) : "");
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
  while (!bytes.empty()) {
    const ssize_t n = retried([&] { return ::write(to.get(), bytes.data(), bytes.size()); });
    if (n < 0) fail_call(Exit::storage, path, "write");
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

// A failed sync is never repeated: the kernel may have dropped the pages that it could not write.
void sync(const Descriptor& file, const Path& path) {
  if (retried([&] { return ::fsync(file.get()); }) < 0) fail_call(Exit::storage, path, "fsync");
}

// Linux frees the descriptor even when close fails, EINTR included.
void close(Descriptor& file, const Path& path) {
  if (::close(file.release()) < 0 && errno != EINTR) fail_call(Exit::storage, path, "close");
}

constexpr const char* kTemporary = ".bellows-tmp";

// A new file beside `target`, removed unless it was renamed.
class Temporary {
 public:
  explicit Temporary(const Path& target) : file_(create(target)) {}
  ~Temporary() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  Temporary(Temporary&&) = delete;
  Descriptor& file() { return file_; }
  const Path& path() const { return path_; }
  void rename_to(const Path& target) {
    if (retried([&] { return ::rename(path_.c_str(), target.c_str()); }) < 0)
      fail_call(Exit::storage, target, "rename");
    path_.clear();
  }

 private:
  // O_EXCL and O_NOFOLLOW: nobody can plant a file or a link under the name. What has the name
  // already was left by a writer that was killed, so the next one is tried.
  int create(const Path& target) {
    static std::atomic<int> made{0};
    for (int attempt = 0; attempt < 100; ++attempt) {
      Path path = target;
      path += fmt::format(".{}-{}{}", ::getpid(), made++, kTemporary);
      const int descriptor = open_file(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
      if (descriptor >= 0) {
        path_ = path;
        return descriptor;
      }
      if (errno != EEXIST) break;
    }
    fail_call(Exit::storage, target, "open");
  }

  Path path_;  // before file_, whose initialiser sets it
  Descriptor file_;
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

std::string printable(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    safe += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return safe;
}

void write_file(const Path& path, std::span<const Bytes> pieces) {
  Temporary temporary(path);
  uint32_t crc = 0;
  for (const Bytes piece : pieces) {
    write_all(temporary.file(), path, piece);
    crc = crc32c(piece, crc);
  }
  if (::fchmod(temporary.file().get(), 0644) < 0) fail_call(Exit::storage, path, "fchmod");
  sync(temporary.file(), path);
  close(temporary.file(), path);
  if (checksum(temporary.path()) != crc)
    fail(Exit::storage, printable(path.native()),
         ": reads back other than it was written; check the disk");
  temporary.rename_to(path);
  sync_folder(path.has_parent_path() ? path.parent_path() : ".");
}

void remove_temporaries(const Path& folder) {
  std::error_code error;  // a folder that is not there holds nothing to remove
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == kTemporary) ::unlink(entry.path().c_str());
}

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

InputFile::InputFile(const Path& path, Exit exit)
    : path_(path), exit_(exit), descriptor_(open_file(path, O_RDONLY | O_NONBLOCK)) {
  if (descriptor_.get() < 0) fail_call(exit, path, "open");
  struct stat info = {};
  if (::fstat(descriptor_.get(), &info) < 0) fail_call(exit, path, "fstat");
  if (!S_ISREG(info.st_mode)) fail(exit, printable(path.native()), ": not a regular file");
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

// Bytes up to and including the last newline.
static int64_t whole_lines(const Path& path) {
  const InputFile file(path, Exit::storage);
  std::byte last{};
  int64_t end = file.size();
  for (; end > 0; --end) {
    file.read(end - 1, {&last, 1});
    if (last == std::byte('\n')) break;
  }
  return end;
}

LineWriter::LineWriter(const Path& path)
    : path_(path), descriptor_(open_file(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0644)) {
  if (descriptor_.get() < 0) fail_call(Exit::storage, path, "open");
  if (::ftruncate(descriptor_.get(), whole_lines(path)) < 0)
    fail_call(Exit::storage, path, "ftruncate");
}

void LineWriter::write(std::string line) {
  line += '\n';
  write_all(descriptor_, path_, bytes_of(line));
}

}  // namespace bellows
