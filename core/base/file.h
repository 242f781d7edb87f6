// Files: the one way to write what must survive, and to read what cannot be trusted.
//
// Every call is repeated after EINTR and until all bytes have moved. A failure is an Error that
// names the path, the call and the reason. Plain threads may call all of this; no OpenMP is used.
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

// Writes all of `bytes`, also to a pipe or a terminal that others have set not to block. False on
// failure, with the reason in errno.
bool write_fully(int descriptor, Bytes bytes);

// Locks an open file until it is closed or its process is dead. False, with errno: EWOULDBLOCK if
// somebody else has locked it, anything else if the file system cannot lock.
bool try_lock(int descriptor);

// Returns the kind of what a path leads to, links followed. Throws Error(exit) if that cannot be
// known: a folder on the way may not be searched, links lead in a circle, a name is too long.
enum class Kind { nothing, file, folder, other };  // other: a device, a pipe, a socket
Kind kind_of(const Path& path, Exit exit);

// The paths directly inside a folder, sorted. Throws Error(exit) if they cannot all be listed.
std::vector<Path> paths_in(const Path& folder, Exit exit);

// Makes the folder and its parents, unless they exist. Throws Error, exit 8, with that advice in
// place of a general one.
void make_folders(const Path& folder, const char* advice = nullptr);

// `path` afterwards holds all of the pieces or what it held before, also through kill -9, power
// loss and a full disk: a temporary file in the same folder is written, synced, read back and
// compared, then renamed, then the folder is synced. Its mode is what the umask leaves of 0666. A
// link is replaced, not followed; a device or a pipe is refused. On failure, exit 8, the temporary
// file is gone; if only the folder's sync failed, the new content is in place and still reported as
// failed.
void write_file(const Path& path, std::span<const Bytes> pieces);
inline void write_file(const Path& path, Bytes content) {
  write_file(path, std::span(&content, 1));
}

// Removes the temporary files in the folder whose writers are dead, of any process and host: a live
// writer holds a lock on its own.
void remove_temporaries(const Path& folder);
// Removes those of this process, for when a signal ends it at once. Not from a signal handler.
void remove_own_temporaries();

// An open file, closed on every way out.
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

// A file to lock or to append to, made if there is none: no link, and only a regular
// file, so that a pipe does not block. `access` is O_RDWR or O_WRONLY, with O_APPEND or without.
// Failures are exit 8.
Descriptor open_own_file(const Path& path, int access);

// A file to read. Only regular files: a pipe or a device neither blocks nor feeds us for ever.
class InputFile {
 public:
  // `exit`: what it means that there is none, or less in it. A disk that fails is Exit::storage.
  InputFile(const Path& path, Exit exit);
  int64_t size() const { return size_; }                     // when it was opened
  void read(int64_t offset, std::span<std::byte> to) const;  // all of `to`, or an error

 private:
  Path path_;
  Exit exit_;
  Descriptor descriptor_;
  int64_t size_;
};

// The whole file, if it is no larger than max_bytes.
std::string read_file(const Path& path, int64_t max_bytes, Exit exit);

// Appends lines to a log, one write each. Opening removes a last line that a kill has cut short.
// One thread at a time.
class LineWriter {
 public:
  explicit LineWriter(const Path& path);
  void write(std::string line);  // without its newline

 private:
  Path path_;
  Descriptor descriptor_;
};

}  // namespace bellows
