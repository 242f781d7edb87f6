#include <algorithm>
#include <cctype>
#include <cmath>
#include "core/base/round.h"
#include "data/images/image_file.h"

namespace bellows {

// Takes the next byte of a text that is no white space and in no comment. These run from # to the
// end of a line.
static uint8_t next_visible(std::span<const uint8_t>& rest) {
  for (bool comment = false; !rest.empty();) {
    const uint8_t byte = rest[0];
    rest = rest.subspan(1);
    comment = byte == '#' || (comment && byte != '\n' && byte != '\r');
    if (!comment && !std::isspace(byte)) return byte;
  }
  fail(Exit::data, "PNM: the file ends too early");
}

// Takes the next number, and the one white space after it.
static int64_t next_number(std::span<const uint8_t>& rest) {
  int64_t value = 0;
  for (uint8_t byte = next_visible(rest); !std::isspace(byte); rest = rest.subspan(1)) {
    if (!std::isdigit(byte) || value > INT32_MAX)
      fail(Exit::data, "PNM: no number where one must be");
    value = 10 * value + byte - '0';
    if (rest.empty()) return value;
    byte = rest[0];
  }
  return value;
}

Sample decode_pnm(std::span<const uint8_t> file, Scratch* scratch, const ViewOf&) {
  const int kind = file.size() > 1 ? file[1] - '0' : 0;
  if (kind < 1 || kind > 6) fail(Exit::data, "PNM: only P1 to P6 are read");
  const bool plain = kind <= 3, bits = kind % 3 == 1;
  std::span<const uint8_t> rest = file.subspan(2);
  const int64_t width = next_number(rest), height = next_number(rest),
                white = bits ? 1 : next_number(rest), channels = kind % 3 ? 1 : 3;
  check_size("PNM", height, width);
  if (white < 1 || white > UINT16_MAX) fail(Exit::data, "PNM: values of up to ", white);
  const Shape shape{3, height, width};
  if (!scratch) return {.shape = shape};
  const int64_t row = width * channels, wide = white > UINT8_MAX ? 2 : 1,
                row_bytes = plain  ? (bits ? row : 2 * row - 1)
                            : bits ? ceil_div(row, 8)
                                   : row * wide;
  if (std::ssize(rest) / row_bytes < height) fail(Exit::data, "PNM: the file ends too early");
  scratch->resize(shape.numel());
  uint8_t* to = scratch->data();
  const uint8_t* const pixels = rest.data();
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < row; ++x) {
      const uint8_t* const bytes = pixels + y * row_bytes;  // unless plain
      int64_t value = 0;
      if (plain)
        value = bits ? next_visible(rest) == '0' : next_number(rest);
      else if (bits)
        value = ~bytes[x / 8] >> (7 - x % 8) & 1;
      else
        value = wide == 2 ? bytes[2 * x] << 8 | bytes[2 * x + 1] : bytes[x];
      const double level = std::nearbyint(double(std::min(value, white)) / double(white) * 255);
      to = std::fill_n(to, channels == 1 ? 3 : 1, static_cast<uint8_t>(level));
    }
  return whole_image(shape, *scratch);
}

}  // namespace bellows
