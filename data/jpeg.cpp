#include "data/jpeg.h"
#include <csetjmp>
#include <cstdio>
// jpeglib.h needs the one above it.
#include <jpeglib.h>
#include "data/image_file.h"

namespace bellows {

namespace {

// libjpeg reports by a jump, which must not cross a C++ object that has a destructor: each step is
// a function of its own, without any, and returns false after a jump.
struct Jpeg : jpeg_decompress_struct {
  explicit Jpeg(std::span<const uint8_t> file);
  ~Jpeg() { jpeg_destroy_decompress(this); }
  Jpeg(const Jpeg&) = delete;

  bool read_header();
  bool start();
  bool read_rows(uint8_t* pixels);  // and to the end of the file
  [[noreturn]] void refuse() const { fail(Exit::data, "JPEG: ", message); }

  std::span<const uint8_t> file;
  jpeg_error_mgr errors;
  jmp_buf escape;
  char message[JMSG_LENGTH_MAX];
};

}  // namespace

extern "C" {
static void jpeg_fails(j_common_ptr common) {
  auto* const jpeg = static_cast<Jpeg*>(reinterpret_cast<j_decompress_ptr>(common));
  jpeg->err->format_message(common, jpeg->message);
  longjmp(jpeg->escape, 1);
}
// Of a file that ends too early it only warns, and fills in grey: a warning is a failure.
static void jpeg_warns(j_common_ptr common, int level) {
  if (level < 0) jpeg_fails(common);
}
}

Jpeg::Jpeg(std::span<const uint8_t> file) : jpeg_decompress_struct{}, file(file) {
  err = jpeg_std_error(&errors);
  errors.error_exit = jpeg_fails;
  errors.emit_message = jpeg_warns;
}

bool Jpeg::read_header() {
  if (setjmp(escape)) return false;
  jpeg_create_decompress(this);
  jpeg_mem_src(this, file.data(), file.size());
  jpeg_read_header(this, TRUE);
  return true;
}

bool Jpeg::start() {
  if (setjmp(escape)) return false;
  jpeg_start_decompress(this);
  return true;
}

bool Jpeg::read_rows(uint8_t* pixels) {
  if (setjmp(escape)) return false;
  while (output_scanline < output_height) {
    JSAMPROW row = pixels + size_t{output_scanline} * output_width * 3;
    jpeg_read_scanlines(this, &row, 1);
  }
  jpeg_finish_decompress(this);
  return true;
}

Sample decode_jpeg(std::span<const uint8_t> file, Scratch& scratch) {
  Jpeg jpeg(file);
  if (!jpeg.read_header()) jpeg.refuse();
  if (jpeg.num_components != 1 && jpeg.num_components != 3)
    fail(Exit::data, "JPEG: ", jpeg.num_components, " colours; grey and RGB are read");
  check_size("JPEG", jpeg.image_height, jpeg.image_width);
  jpeg.out_color_space = JCS_RGB;
  if (!jpeg.start()) jpeg.refuse();
  const int64_t height = jpeg.output_height, width = jpeg.output_width;
  scratch.resize(height * width * 3);
  if (!jpeg.read_rows(scratch.data())) jpeg.refuse();
  return {scratch.data(),
          {3, height, width},
          0,
          Part{.height = height, .width = width, .interleaved = true}};
}

}  // namespace bellows
