#include <algorithm>
#include <array>
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

}  // namespace bellows
