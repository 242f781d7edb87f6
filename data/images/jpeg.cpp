#include <cstdio>
#include <cstdlib>
#include "data/images/escape.h"
#include "data/images/image_file.h"
// jpeglib.h needs <cstdio>.
#include <jerror.h>
#include <jpeglib.h>
#include "core/base/round.h"

namespace bellows {

namespace {

// Each scan of a progressive file passes over the whole image, but takes only a few hundred bytes:
// 5000 scans are 650 kB and half a minute. cjpeg and jpegtran write at most 100, common encoders
// 10, or 18 for CMYK.
constexpr int64_t kMostScans = 100;
constexpr int64_t kScansOfTheLargest = 24;  // scans times pixels are about a second by default

// A codec of libjpeg whose errors jump to its Escape.
template <class Codec> struct WithErrors : Codec, Escape {
  WithErrors() : Codec{} {
    this->err = jpeg_std_error(&errors);
    errors.error_exit = [](j_common_ptr common) {
      auto* const self = static_cast<WithErrors*>(reinterpret_cast<Codec*>(common));
      common->err->format_message(common, self->message);
      longjmp(self->buffer, 1);
    };
  }
  WithErrors(WithErrors&&) = delete;

  jpeg_error_mgr errors;
};
static_assert(sizeof(Escape::message) >= JMSG_LENGTH_MAX);

struct Jpeg : WithErrors<jpeg_decompress_struct> {
  ~Jpeg() { jpeg_destroy_decompress(this); }
  jpeg_progress_mgr monitor{};
};

}  // namespace

// Called before each row of blocks of each scan.
static void jpeg_progresses(j_common_ptr common) {
  auto* const jpeg = static_cast<Jpeg*>(reinterpret_cast<j_decompress_ptr>(common));
  const int64_t pixels = int64_t{jpeg->image_height} * jpeg->image_width;
  const int64_t most = std::min(kMostScans, kScansOfTheLargest * most_pixels() / pixels);
  if (jpeg->input_scan_number <= most) return;
  std::snprintf(jpeg->message, sizeof jpeg->message,
                "more than %d scans of %u x %u pixels; save the image again", int(most),
                jpeg->image_width, jpeg->image_height);
  longjmp(jpeg->buffer, 1);
}
// Treats warnings as errors: libjpeg only warns of a truncated file, and fills in gray. Warnings
// about a header are ignored, because they lose no pixel.
static void jpeg_warns(j_common_ptr common, int level) {
  const int code = common->err->msg_code;
  const bool between_headers = code == JWRN_EXTRANEOUS_DATA &&
                               reinterpret_cast<j_decompress_ptr>(common)->input_scan_number == 0;
  if (level >= 0 || between_headers || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM ||
      code == JWRN_NOT_SEQUENTIAL)
    return;
  common->err->error_exit(common);
}

// Returns the largest reduction that leaves as many pixels as are needed.
static int64_t reduction(double step) { return step < 2 ? 1 : step < 4 ? 2 : step < 8 ? 4 : 8; }

// Returns begin and size of a range along an axis, in reduced pixels. The margin is for chroma,
// whose upsampling reads neighboring pixels.
static std::pair<JDIMENSION, JDIMENSION> stretch(int64_t at, int64_t size, int64_t reduced,
                                                 int64_t margin, JDIMENSION most) {
  const int64_t begin = std::max<int64_t>(0, at / reduced - margin);
  const int64_t end = std::min<int64_t>(most, ceil_div(at + size, reduced) + margin);
  return {begin, end - begin};
}

// Converts CMYK to RGB, in place. Inks are inverted (255: no ink), as Photoshop writes and Pillow
// reads them. A color is the light that its ink and black let through.
static void blend_inks(Scratch& pixels) {
  uint8_t* rgb = pixels.data();
  for (size_t i = 0; i < pixels.size(); i += 4) {
    const int black = pixels[i + 3];
    for (size_t c = 0; c < 3; ++c) *rgb++ = black - ((255 - pixels[i + c]) * black + 127) / 255;
  }
  pixels.resize(pixels.size() / 4 * 3);
}

// Reads the header. Returns the image's shape.
static Shape read_header(Jpeg& jpeg, std::span<const uint8_t> file) {
  jpeg.errors.emit_message = jpeg_warns;
  jpeg_create_decompress(&jpeg);
  jpeg.monitor.progress_monitor = jpeg_progresses;
  jpeg.progress = &jpeg.monitor;
  jpeg_mem_src(&jpeg, file.data(), file.size());
  jpeg_read_header(&jpeg, TRUE);
  if (jpeg.num_components == 2 || jpeg.num_components > 4)
    fail(Exit::data, "JPEG: ", jpeg.num_components,
         " color channels; gray, RGB and CMYK are supported");
  check_size("JPEG", jpeg.image_height, jpeg.image_width);
  return {3, jpeg.image_height, jpeg.image_width};
}

// Decodes the view. Returns the part that it has decoded.
static Part read_view(Jpeg& jpeg, const View& view, Scratch& scratch) {
  const int64_t reduced = reduction(view.step);
  jpeg.out_color_space = jpeg.num_components == 4 ? JCS_CMYK : JCS_RGB;
  jpeg.scale_num = 1;
  jpeg.scale_denom = static_cast<unsigned>(reduced);
  jpeg_start_decompress(&jpeg);
  auto [top, height] = stretch(view.part.top, view.part.height, reduced, 0, jpeg.output_height);
  auto [left, width] = stretch(view.part.left, view.part.width, reduced, 2, jpeg.output_width);
  // At a reduced size libjpeg crops columns only if no sampling factor is above 2.
  if (jpeg.max_h_samp_factor > 2 || jpeg.max_v_samp_factor > 2) left = 0, width = jpeg.output_width;
  if (width < jpeg.output_width) jpeg_crop_scanline(&jpeg, &left, &width);  // may widen the range
  scratch.resize(size_t{height} * width * jpeg.output_components);
  if (top) jpeg_skip_scanlines(&jpeg, top);
  while (jpeg.output_scanline < top + height) {
    const size_t y = jpeg.output_scanline - top;
    JSAMPROW row = scratch.data() + y * width * jpeg.output_components;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  return {top, left, height, width, reduced, true};
}

Sample decode_jpeg(std::span<const uint8_t> file, Scratch* scratch, const ViewOf& wanted) {
  Jpeg jpeg;
  Sample sample;
  guarded("JPEG", jpeg, [&] {
    sample.shape = read_header(jpeg, file);
    const Rectangle whole{0, 0, sample.shape[1], sample.shape[2]};
    if (scratch)
      sample.part = read_view(jpeg, wanted ? wanted(sample.shape) : View{whole}, *scratch);
  });
  if (!scratch) return sample;
  if (jpeg.out_color_space == JCS_CMYK) blend_inks(*scratch);
  sample.pixels = scratch->data();
  return sample;
}

namespace {

// Reports an error for lack of memory, or for a side above the format's 65500 pixels.
struct Encoder : WithErrors<jpeg_compress_struct> {
  ~Encoder() {
    jpeg_destroy_compress(this);
    std::free(bytes);
  }

  void write(const uint8_t* pixels, int64_t height, int64_t width, int quality) {
    jpeg_create_compress(this);
    jpeg_mem_dest(this, &bytes, &size);
    image_height = static_cast<JDIMENSION>(height);
    image_width = static_cast<JDIMENSION>(width);
    input_components = 3;
    in_color_space = JCS_RGB;
    jpeg_set_defaults(this);
    jpeg_set_quality(this, quality, TRUE);
    jpeg_start_compress(this, TRUE);
    while (next_scanline < image_height) {
      JSAMPROW row = const_cast<JSAMPROW>(pixels + size_t{next_scanline} * image_width * 3);
      jpeg_write_scanlines(this, &row, 1);
    }
    jpeg_finish_compress(this);
  }

  unsigned char* bytes = nullptr;
  unsigned long size = 0;
};
}  // namespace

std::vector<uint8_t> encode_jpeg(const uint8_t* pixels, int64_t height, int64_t width,
                                 int quality) {
  Encoder jpeg;
  guarded("JPEG", jpeg, [&] { jpeg.write(pixels, height, width, quality); });
  return {jpeg.bytes, jpeg.bytes + jpeg.size};
}

}  // namespace bellows
