#include "data/images/encode_jpeg.h"
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
// jpeglib.h needs <cstdio>.
#include <jpeglib.h>
#include "core/base/check.h"

namespace bellows {

namespace {

// libjpeg reports errors by longjmp: out of memory, or a side above the format's 65500 pixels.
struct Encoder : jpeg_compress_struct {
  Encoder() : jpeg_compress_struct{} {
    err = jpeg_std_error(&errors);
    errors.error_exit = [](j_common_ptr common) {
      auto* const jpeg = static_cast<Encoder*>(reinterpret_cast<j_compress_ptr>(common));
      jpeg->err->format_message(common, jpeg->message);
      longjmp(jpeg->escape, 1);
    };
  }
  ~Encoder() {
    jpeg_destroy_compress(this);
    std::free(bytes);
  }
  Encoder(Encoder&&) = delete;
  bool write(const uint8_t* pixels, int64_t height, int64_t width, int quality);

  jpeg_error_mgr errors;
  jmp_buf escape;
  char message[JMSG_LENGTH_MAX];
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
};

bool Encoder::write(const uint8_t* pixels, int64_t height, int64_t width, int quality) {
  if (setjmp(escape)) return false;
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
  return true;
}

}  // namespace

std::vector<uint8_t> encode_jpeg(const uint8_t* pixels, int64_t height, int64_t width,
                                 int quality) {
  Encoder jpeg;
  if (!jpeg.write(pixels, height, width, quality)) fail(Exit::data, "JPEG: ", jpeg.message);
  return {jpeg.bytes, jpeg.bytes + jpeg.size};
}

}  // namespace bellows
