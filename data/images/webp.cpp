#include <webp/decode.h>
#include <webp/demux.h>
#include <memory>
#include "data/images/image_file.h"

namespace bellows {

Sample decode_webp(std::span<const uint8_t> file, Scratch* scratch, const ViewOf&) {
  const WebPData bytes{file.data(), file.size()};
  const std::shared_ptr<WebPDemuxer> demuxer(WebPDemux(&bytes), WebPDemuxDelete);
  if (!demuxer) fail(Exit::data, "WebP: the file is damaged or ends too early");
  const Shape shape{3, WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT),
                    WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH)};
  check_size("WebP", shape[1], shape[2]);
  if (!scratch) return {.shape = shape};
  scratch->assign(shape.numel(), 0);  // black where the first image of an animation does not reach
  WebPIterator first{};
  const bool found = WebPDemuxGetFrame(demuxer.get(), 1, &first);
  const int64_t at = (first.y_offset * shape[2] + first.x_offset) * 3;
  const bool fits = found && first.x_offset + first.width <= shape[2] && at < shape.numel();
  const bool whole =
      fits && WebPDecodeRGBInto(first.fragment.bytes, first.fragment.size, scratch->data() + at,
                                scratch->size() - at, static_cast<int>(shape[2] * 3));
  WebPDemuxReleaseIterator(&first);
  if (!whole) fail(Exit::data, "WebP: the image is damaged or ends too early");
  return whole_image(shape, *scratch);
}

}  // namespace bellows
