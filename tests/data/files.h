// Helpers for tests of readers: temporary folders, gzip streams, IDX bytes.
#pragma once
#include <zlib.h>
#include "tests/matchers.h"
#include "tests/refusal.h"
#include "tests/temp_folder.h"

namespace bellows {

inline std::string gzip(const std::string& bytes) {
  std::string out(compressBound(bytes.size()) + 32, '\0');
  z_stream z{};
  deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

inline std::string idx_header(std::initializer_list<uint32_t> dims) {
  std::string bytes{0, 0, 8, static_cast<char>(dims.size())};
  for (const uint32_t dim : dims)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(dim >> shift);
  return bytes;
}
inline std::string idx(std::initializer_list<uint32_t> dims) {
  size_t size = 1;
  for (const uint32_t dim : dims) size *= dim;
  std::string bytes = idx_header(dims);
  for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(i % 10);
  return bytes;
}

// A file in NumPy's format, version 1. `shape` is that of a tuple: "2," or "2, 3".
inline std::string npy(const std::string& dtype, const std::string& shape, const std::string& data,
                       const std::string& order = "False") {
  std::string header =
      cat("{'descr': '", dtype, "', 'fortran_order': ", order, ", 'shape': (", shape, "), }");
  header += std::string(64 - (header.size() + 11) % 64, ' ') + "\n";
  return std::string("\x93NUMPY\x01\x00", 8) + char(header.size() % 256) +
         char(header.size() / 256) + header + data;
}
template <class T> std::string data_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace bellows
