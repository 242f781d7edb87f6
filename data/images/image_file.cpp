#include "data/images/image_file.h"
#include "core/base/trace.h"

namespace bellows {

void check_size(const char* format, int64_t height, int64_t width) {
  if (height < 1 || width < 1 || height > kMostPixels / width)
    fail(Exit::data, format, ": ", width, " x ", height, " pixels; from 1 to ", kMostPixels,
         " are read");
}

static bool starts_with(std::span<const uint8_t> file, std::initializer_list<uint8_t> magic) {
  return file.size() >= magic.size() && std::equal(magic.begin(), magic.end(), file.begin());
}

static bool is_jpeg(std::span<const uint8_t> file) { return starts_with(file, {0xff, 0xd8}); }
bool is_png(std::span<const uint8_t> file) { return starts_with(file, {0x89, 'P', 'N', 'G'}); }

static Sample decode(std::span<const uint8_t> file, Scratch* scratch, const ViewOf& wanted) {
  if (is_jpeg(file)) return decode_jpeg(file, scratch, wanted);
  if (is_png(file)) return decode_png(file, scratch);
  fail(Exit::data, "neither JPEG nor PNG");
}

Shape image_shape(std::span<const uint8_t> file) { return decode(file, nullptr, {}).shape; }

Sample decode_image(std::span<const uint8_t> file, Scratch& scratch, const ViewOf& wanted) {
  const Sample sample = decode(file, &scratch, wanted);
  const int64_t decoded = sample.part->height * sample.part->width;
  trace::count<"decode.pixels">(decoded);
  if (decoded < sample.shape[1] * sample.shape[2]) trace::count<"decode.scaled_images">();
  return sample;
}

}  // namespace bellows
