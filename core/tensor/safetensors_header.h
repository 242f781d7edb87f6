// JSON header of a safetensors file: formatting and parsing, without I/O.
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

// Returns the header without padding, and without spaces outside strings.
std::string format_header(const TensorsHeader& header);

// Parses a header. Throws Error, exit 4, with `where` before the message, if the text is not valid
// JSON of this form, or if the entries do not cover 0..data_bytes exactly: gaps, overlaps, shapes
// of another size.
TensorsHeader parse_header(std::string_view text, int64_t data_bytes, const std::string& where);

}  // namespace bellows
