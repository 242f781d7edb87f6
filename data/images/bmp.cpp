#include <algorithm>
#include <array>
#include <bit>
#include "core/base/round.h"
#include "data/images/image_file.h"

namespace bellows {

namespace {

struct Bmp {
  explicit Bmp(std::span<const uint8_t> file);
  uint32_t number(size_t at, size_t bytes) const {  // little endian
    if (at + bytes > file.size()) fail(Exit::data, "BMP: the file ends too early");
    uint32_t value = 0;
    for (size_t i = bytes; i-- > 0;) value = value << 8 | file[at + i];
    return value;
  }
  uint8_t channel(size_t row, int64_t x, size_t c) const;

  std::span<const uint8_t> file;
  int64_t width, height, bits;  // bits: of a pixel; height: negative if the first row is the top
  size_t data, colors = 0, color_bytes = 4;  // where pixels and palette begin; size of a color
  std::array<uint32_t, 3> masks{0xff0000, 0xff00, 0xff};
};

Bmp::Bmp(std::span<const uint8_t> file) : file(file) {
  const uint32_t head = number(14, 4);
  const bool os2 = head == 12;
  data = number(10, 4);
  width = int32_t(os2 ? number(18, 2) : number(18, 4));
  height = int32_t(os2 ? number(20, 2) : number(22, 4));
  bits = number(os2 ? 24 : 28, 2);
  check_size("BMP", std::abs(height), width);
  const uint32_t compression = os2 ? 0 : number(30, 4);
  const bool masked = compression == 3 && (bits == 16 || bits == 32);
  const bool known = bits == 1 || bits == 4 || bits == 8 || bits == 16 || bits == 24 || bits == 32;
  if (!known || (compression && !masked) || (!os2 && head < 40))
    fail(Exit::data, "BMP: ", bits, " bits a pixel, compression ", compression, ", header of ",
         head, " bytes; save the image without compression");
  colors = 14 + head;
  if (os2) color_bytes = 3;
  const uint32_t count = os2 ? 0 : number(46, 4);
  if (bits <= 8 && data == colors)  // some writers leave the palette out of the offset
    data += color_bytes * (count ? count : 1 << bits);
  if (bits == 16) masks = {0x7c00, 0x3e0, 0x1f};
  for (size_t c = 0; masked && c < 3; ++c) masks[c] = number(54 + 4 * c, 4);
}

// Returns a channel of a pixel, scaled to 0..255 and rounded down, in the row that begins at `row`.
// An index that the palette lacks is black.
uint8_t Bmp::channel(size_t row, int64_t x, size_t c) const {
  if (bits <= 8) {
    const int64_t shift = 8 - bits - x * bits % 8;
    const size_t index = file[row + x * bits / 8] >> shift & ((1 << bits) - 1);
    const size_t at = colors + index * color_bytes + 2 - c;
    return at < data ? file[at] : 0;
  }
  const uint32_t mask = masks[c], pixel = number(row + x * bits / 8, bits / 8);
  if (!mask) return 0;
  const int shift = std::countr_zero(mask);
  const uint32_t value = (pixel & mask) >> shift, most = mask >> shift;
  return static_cast<uint8_t>(most == 255 ? value : uint64_t{value} * 255 / most);
}

}  // namespace

Sample decode_bmp(std::span<const uint8_t> file, Scratch* scratch, const ViewOf&) {
  const Bmp bmp(file);
  const int64_t height = std::abs(bmp.height), used = ceil_div(bmp.width * bmp.bits, 8),
                stride = ceil_div(used, 4) * 4;
  const Shape shape{3, height, bmp.width};
  if (!scratch) return {.shape = shape};
  if (int64_t(bmp.data) + stride * (height - 1) + used > std::ssize(file))
    fail(Exit::data, "BMP: the file ends too early");
  scratch->resize(shape.numel());
  uint8_t* to = scratch->data();
  for (int64_t y = 0; y < height; ++y) {
    const size_t row = bmp.data + (bmp.height < 0 ? y : height - 1 - y) * stride;
    for (int64_t x = 0; x < bmp.width; ++x)
      for (size_t c = 0; c < 3; ++c) *to++ = bmp.channel(row, x, c);
  }
  return whole_image(shape, *scratch);
}

}  // namespace bellows
