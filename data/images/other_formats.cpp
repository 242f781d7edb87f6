// Decoders of BMP, PNM and WebP.
#include <webp/decode.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include "core/base/round.h"
#include "data/images/image_file.h"

namespace bellows {

Sample decode_bmp(std::span<const uint8_t> file, Scratch* scratch, const ViewOf&) {
  const auto number = [&](size_t at, size_t bytes = 4) {  // little endian
    if (at + bytes > file.size()) fail(Exit::data, "BMP: the file ends too early");
    uint32_t value = 0;
    for (size_t i = bytes; i-- > 0;) value = value << 8 | file[at + i];
    return value;
  };
  const size_t head = number(14);
  const int64_t bits = number(28, 2), compression = number(30);
  if (head < 40 || compression || (bits != 8 && bits != 24 && bits != 32))
    fail(Exit::data, "BMP: ", bits, " bits a pixel, compression ", compression, ", header of ",
         head, " bytes; save the image with 24 bits a pixel and without compression");
  const int64_t width = int32_t(number(18)), rows = int32_t(number(22)), height = std::abs(rows);
  check_size("BMP", height, width);
  if (!scratch) return {.shape = {3, height, width}};
  const size_t data = number(10), palette = 14 + head, bytes = bits / 8, used = width * bytes,
               stride = round_up(used, 4);
  if (data + stride * (height - 1) + used > file.size())
    fail(Exit::data, "BMP: the file ends too early");
  if (bits == 8 && palette >= data)
    fail(Exit::data, "BMP: no palette before the pixels; save the image with 24 bits a pixel");
  std::array<uint8_t, 1024> colors{};  // an index that the palette lacks is black
  if (bits == 8)
    std::copy_n(&file[palette], std::min(data - palette, colors.size()), colors.begin());
  return whole_image("BMP", height, width, scratch, [&](uint8_t* to) {
    for (int64_t y = 0; y < height; ++y) {
      // The bottom row comes first, unless the height is negative.
      const uint8_t* pixel = &file[data + stride * (rows < 0 ? y : height - 1 - y)];
      for (int64_t x = 0; x < width; ++x, pixel += bytes) {
        const uint8_t* const bgr = bits == 8 ? &colors[4 * *pixel] : pixel;
        to = std::reverse_copy(bgr, bgr + 3, to);
      }
    }
  });
}

// ---- PNM

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

// ---- WebP

Sample decode_webp(std::span<const uint8_t> file, Scratch* scratch, const ViewOf&) {
  WebPBitstreamFeatures found;
  if (WebPGetFeatures(file.data(), file.size(), &found) != VP8_STATUS_OK)
    fail(Exit::data, "WebP: the file is damaged or ends too early");
  if (found.has_animation) fail(Exit::data, "WebP: an animation; save one of its images");
  return whole_image("WebP", found.height, found.width, scratch, [&](uint8_t* pixels) {
    if (!WebPDecodeRGBInto(file.data(), file.size(), pixels, scratch->size(), 3 * found.width))
      fail(Exit::data, "WebP: the image is damaged or ends too early");
  });
}

}  // namespace bellows
