// Durable file writes, and checked reads of files that cannot be trusted. System calls are retried
// after EINTR and until all bytes are transferred. A failure throws an Error that names the path,
// the call and the reason. Exceptions of std::filesystem carry no exit code, so product code calls
// these functions, or passes an error_code. They use no OpenMP, so any thread may call them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include "core/base/check.h"
#include "core/base/utf8.h"

namespace bellows {

using Path = std::filesystem::path;
using Bytes = std::span<const std::byte>;

inline Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// Writes all of `bytes`, even to a pipe or a terminal in non-blocking mode. Returns false on
// failure, with the reason in errno.
bool write_fully(int descriptor, Bytes bytes);

// Locks an open file until it is closed or its process dies. Returns false on failure, with the
// reason in errno: EWOULDBLOCK if the file is locked elsewhere, other values if the file system
// cannot lock.
bool try_lock(int descriptor);

// Returns the kind of file at `path`, links followed. Throws Error(exit) if it cannot be
// determined: a parent folder is not searchable, links form a loop, a name is too long.
enum class Kind { nothing, file, folder, other };  // other: a device, pipe or socket
Kind kind_of(const Path& path, Exit exit);

// Returns the paths directly inside a folder, sorted. Throws Error(exit) if it cannot list all.
std::vector<Path> paths_in(const Path& folder, Exit exit);

// Creates the folder and its parents, unless they exist. Throws Error, exit 8, with `advice` (as in
// "; free some space") at the end of the message in place of general advice.
void make_folders(const Path& folder, const char* advice = nullptr);

// Replaces the content of `path` atomically: afterwards it holds all pieces or its old content,
// even after kill -9, power loss or on a full disk. Writes a temporary file in the same folder,
// syncs it, reads it back and compares, renames it, and syncs the folder. The mode is 0666 without
// the umask's bits. A link is replaced, not followed; devices and pipes are refused. On failure, it
// removes the temporary file and throws Error, exit 8. If only the sync of the folder failed, it
// throws although the new content is in place.
void write_file(const Path& path, std::span<const Bytes> pieces);
inline void write_file(const Path& path, Bytes content) {
  write_file(path, std::span(&content, 1));
}

// Removes the temporary files in the folder whose writers are dead, whatever process or host they
// ran on. A live writer holds a lock on its file.
void remove_temporaries(const Path& folder);
// Removes this process's own temporary files before a signal ends it. Not for signal handlers.
void remove_own_temporaries();

// Owner of a file descriptor, which the destructor closes.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&&) = delete;
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;  // negative: none
};

// Opens a file for locking or appending; creates it if it does not exist. Refuses links and
// anything but regular files, so that a pipe does not block. `access` is O_RDWR or O_WRONLY, with
// or without O_APPEND. Throws Error, exit 8.
Descriptor open_own_file(const Path& path, int access);

// A regular file, opened for reading. Pipes and devices are refused: they may block or never end.
class InputFile {
 public:
  // `exit`: thrown if the file cannot be opened or is too short. A disk error is Exit::storage.
  InputFile(const Path& path, Exit exit);
  int64_t size() const { return size_; }                     // in bytes, when it was opened
  void read(int64_t offset, std::span<std::byte> to) const;  // fills `to` or throws

 private:
  Path path_;
  Exit exit_;
  Descriptor descriptor_;
  int64_t size_;
};

// Returns the whole file. Throws Error(exit) if it is larger than `max_bytes`.
std::string read_file(const Path& path, int64_t max_bytes, Exit exit);

// Appends lines to a log, one write each. The constructor removes an incomplete last line, which a
// killed process may have left. Not thread-safe.
class LineWriter {
 public:
  explicit LineWriter(const Path& path);
  void write(std::string line);  // without its newline

 private:
  Path path_;
  Descriptor descriptor_;
};

// Lock file for one process at a time. The holder writes into it which process it is. The kernel
// releases the lock of a dead process, so the file itself may stay.
class FileLock {
 public:
  // Opens or creates the file, without locking it. Throws Error, exit 8.
  explicit FileLock(const Path& path);

  // Takes the lock. Returns false if another process holds it. Throws Error, exit 8, if the file
  // cannot be locked or written.
  bool try_take();
  // Retries try_take() for up to `seconds`.
  bool take_within(double seconds);
  // Returns the holder of the lock: "process 7 on host", or "another process" if unknown.
  std::string owner() const;

 private:
  Path path_;
  Descriptor file_;
};

}  // namespace bellows
