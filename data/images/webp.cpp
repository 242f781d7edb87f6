#include <webp/decode.h>
#include "data/images/image_file.h"

namespace bellows {

Sample decode_webp(std::span<const uint8_t> file, Scratch* scratch, const ViewOf&) {
  WebPBitstreamFeatures found;
  if (WebPGetFeatures(file.data(), file.size(), &found) != VP8_STATUS_OK)
    fail(Exit::data, "WebP: the file is damaged or ends too early");
  check_size("WebP", found.height, found.width);
  if (found.has_animation) fail(Exit::data, "WebP: an animation; save one of its images");
  const Shape shape{3, found.height, found.width};
  if (!scratch) return {.shape = shape};
  scratch->resize(shape.numel());
  if (!WebPDecodeRGBInto(file.data(), file.size(), scratch->data(), scratch->size(),
                         3 * found.width))
    fail(Exit::data, "WebP: the image is damaged or ends too early");
  return whole_image(shape, *scratch);
}

}  // namespace bellows
