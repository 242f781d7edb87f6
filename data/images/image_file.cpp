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
static constexpr const char* kNeither = "neither JPEG nor PNG";

static Sample counted(const Sample& sample) {
  const int64_t decoded = sample.part->height * sample.part->width;
  trace::count<"decode.pixels">(decoded);
  if (decoded < sample.shape[1] * sample.shape[2]) trace::count<"decode.scaled_images">();
  return sample;
}

Shape image_shape(std::span<const uint8_t> file) {
  if (is_jpeg(file)) return jpeg_shape(file);
  if (is_png(file)) return png_shape(file);
  fail(Exit::data, kNeither);
}

Sample decode_image(std::span<const uint8_t> file, Scratch& scratch, const ViewOf& wanted) {
  if (is_jpeg(file)) return counted(decode_jpeg(file, scratch, wanted));
  if (is_png(file)) return counted(decode_png(file, scratch));
  fail(Exit::data, kNeither);
}

}  // namespace bellows
