// The JSON header of a safetensors file, as a pure function of its text.
#pragma once
#include "core/tensor/safetensors.h"

namespace bellows {

struct TensorEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape = {};
  int64_t begin = 0, end = 0;  // bytes, from the end of the header
};
struct TensorsHeader {
  std::vector<TensorEntry> entries;  // in the order of their bytes
  Metadata metadata;
};

// Without padding, and without any space outside of strings.
std::string format_header(const TensorsHeader& header);

// Refuses, with exit 4 and `where` in front of the message, what is not valid JSON of this form,
// and entries that do not cover 0..data_bytes exactly: gaps, overlaps, shapes that do not fit.
TensorsHeader parse_header(std::string_view text, int64_t data_bytes, const std::string& where);

}  // namespace bellows
