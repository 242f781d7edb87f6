#include <algorithm>
#include <cctype>
#include <cmath>
#include "data/images/image_file.h"

namespace bellows {

// Returns the next number of a header and sets `at` after the one white space that ends it.
// Comments run from # to the end of a line.
static int64_t next_number(std::span<const uint8_t> file, size_t& at) {
  const auto next = [&] {
    if (at >= file.size()) fail(Exit::data, "PNM: the file ends too early");
    return file[at++];
  };
  uint8_t byte = next();
  for (; std::isspace(byte) || byte == '#'; byte = next())
    while (byte == '#' && at < file.size() && file[at] != '\n' && file[at] != '\r') ++at;
  int64_t value = 0;
  for (; std::isdigit(byte) && value <= INT32_MAX; byte = next()) value = 10 * value + byte - '0';
  if (!std::isspace(byte)) fail(Exit::data, "PNM: no number where one must be");
  return value;
}

Sample decode_pnm(std::span<const uint8_t> file, Scratch* scratch, const ViewOf&) {
  const uint8_t kind = file.size() > 1 ? file[1] : 0;
  if (kind != '5' && kind != '6')
    fail(Exit::data,
         "PNM: only P5 and P6, the binary formats of gray and RGB, are read; save the image "
         "as PNG");
  size_t at = 2;
  const int64_t width = next_number(file, at), height = next_number(file, at),
                white = next_number(file, at);
  check_size("PNM", height, width);
  if (white < 1 || white > UINT8_MAX)
    fail(Exit::data, "PNM: values of up to ", white, "; only those of up to 255 are read");
  const size_t copies = kind == '5' ? 3 : 1, size = 3 * height * width / copies;
  if (scratch && file.size() - at < size) fail(Exit::data, "PNM: the file ends too early");
  return whole_image("PNM", height, width, scratch, [&](uint8_t* to) {
    for (const int64_t value : file.subspan(at, size)) {
      const double level = std::nearbyint(double(std::min(value, white)) / double(white) * 255);
      to = std::fill_n(to, copies, static_cast<uint8_t>(level));
    }
  });
}

}  // namespace bellows
