#include "trainer/log/tensorboard.h"
#include <fcntl.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include "core/base/crc32c.h"
#include "trainer/log/system.h"

namespace bellows {

template <class T> static std::string little_endian(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));  // x86-64 is little-endian
  return bytes;
}

// ---- protobuf: a field is a tag (number and wire type), then the value

static std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
template <class T> static std::string field(int number, T value) {
  if constexpr (std::is_integral_v<T>) return varint(number << 3) + varint(value);
  return varint(number << 3 | (sizeof(T) == 8 ? 1 : 5)) + little_endian(value);
}
static std::string field(int number, const std::string& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}

// ---- TFRecord

// Masked as TFRecord requires: a CRC of data that contains CRCs is weak.
static std::string masked_crc(const std::string& bytes) {
  const uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  return little_endian((crc >> 15 | crc << 17) + 0xa282ead8u);
}

static std::string framed(const std::string& message) {
  const std::string length = little_endian<uint64_t>(message.size());
  return length + masked_crc(length) + message + masked_crc(message);
}

std::string version_record(double wall_time) {
  return framed(field(1, wall_time) + field(3, std::string("brain.Event:2")));
}

std::string scalars_record(double wall_time, int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars)
    summary += field(1, field(1, tag) + field(2, static_cast<float>(value)));
  return framed(field(1, wall_time) + field(2, step) + field(5, summary));
}

std::string restart_record(double wall_time, int64_t step) {
  return framed(field(1, wall_time) + field(2, step) + field(7, field(1, 1)));
}

// A resumed run adds a file. TensorBoard reads the files of a folder in order.
static Path new_file(const Path& folder) {
  const std::string stem =
      cat("events.out.tfevents.", int64_t(wall_seconds()), ".", host_name(), ".", getpid(), ".");
  for (int n = 0;; ++n)
    if (const auto path = folder / (stem + std::to_string(n));
        kind_of(path, Exit::storage) == Kind::nothing)
      return path;
}

TensorBoard::TensorBoard(const Path& folder, int64_t from)
    : path_(new_file(folder)), file_(open_own_file(path_, O_WRONLY)) {
  append(version_record(wall_seconds()));
  append(restart_record(wall_seconds(), from + 1));
}

void TensorBoard::write(int64_t step, const Scalars& scalars) {
  append(scalars_record(wall_seconds(), step, scalars));
}

void TensorBoard::append(const std::string& record) {
  if (!write_fully(file_.get(), bytes_of(record)))
    fail(Exit::storage, path_.string(), ": write: ", std::strerror(errno));
}

}  // namespace bellows
