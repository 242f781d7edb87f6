#include "data/image_file.h"
#include "core/trace.h"
#include "data/jpeg.h"
#include "data/png.h"

namespace bellows {

void check_size(const char* format, int64_t height, int64_t width) {
  if (height < 1 || width < 1 || height > kMostPixels / width)
    fail(Exit::data, format, ": ", width, " x ", height, " pixels; from 1 to ", kMostPixels,
         " are read");
}

static bool starts_with(std::span<const uint8_t> file, std::initializer_list<uint8_t> magic) {
  return file.size() >= magic.size() && std::equal(magic.begin(), magic.end(), file.begin());
}

static Sample counted(const Sample& sample) {
  static trace::Counter& pixels = trace::counter("decode.pixels");
  static trace::Counter& scaled = trace::counter("decode.scaled_images");
  const int64_t decoded = sample.part->height * sample.part->width;
  pixels.add(decoded);
  if (decoded < sample.shape[1] * sample.shape[2]) scaled.add();
  return sample;
}

Sample decode_image(std::span<const uint8_t> file, Scratch& scratch, const ViewOf& wanted) {
  if (starts_with(file, {0xff, 0xd8})) return counted(decode_jpeg(file, scratch, wanted));
  if (starts_with(file, {0x89, 'P', 'N', 'G'})) return counted(decode_png(file, scratch));
  fail(Exit::data, "neither JPEG nor PNG");
}

}  // namespace bellows
