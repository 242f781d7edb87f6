#include <webp/decode.h>
#include "data/images/image_file.h"

namespace bellows {

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
