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
#include "core/check.h"

namespace bellows {

using Path = std::filesystem::path;
using Bytes = std::span<const std::byte>;

inline Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
// For messages: the control characters of a hostile name become \xNN.
std::string printable(std::string_view text);

// `path` afterwards holds all of the pieces or what it held before, also through kill -9, power
// loss and a full disk: a temporary file in the same folder is written, synced, read back and
// compared, then renamed, then the folder is synced. It ends with mode 0644. On failure, exit 8,
// the temporary file is gone; if only the folder's sync failed, the new content is in place and
// still reported as failed.
void write_file(const Path& path, std::span<const Bytes> pieces);
inline void write_file(const Path& path, Bytes content) {
  write_file(path, std::span(&content, 1));
}

// Removes what killed writers left in the folder. Hold the folder's lock: a live writer's temporary
// file would go too.
void remove_temporaries(const Path& folder);

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
