#include <png.h>
#include <algorithm>
#include <cstring>
#include <mutex>
#include "core/base/output.h"
#include "data/images/escape.h"
#include "data/images/image_file.h"

namespace bellows {

namespace {

// A reader of libpng whose errors jump to its Escape.
struct Png : Escape {
  explicit Png(std::span<const uint8_t> file)
      : rest(file),
        png(png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fails, warns)),
        info(png ? png_create_info_struct(png) : nullptr) {
    if (!info) throw std::bad_alloc();
    png_set_read_fn(png, this, reads);
    // Skips text, profiles and other chunks that change no pixel: libpng would inflate and keep up
    // to 8 MB for each of a thousand such chunks.
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  }
  ~Png() { png_destroy_read_struct(&png, &info, nullptr); }
  Png(Png&&) = delete;

  void read_rows(uint8_t* pixels) {  // reads to the end of the file, too
    const size_t height = png_get_image_height(png, info);
    const size_t row = size_t{3} * png_get_image_width(png, info);
    png_set_expand(png);
    png_set_strip_16(png);
    png_set_strip_alpha(png);
    png_set_gray_to_rgb(png);
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) != row) png_error(png, "not RGB");
    for (int pass = 0; pass < passes; ++pass)
      for (size_t y = 0; y < height; ++y) png_read_row(png, pixels + y * row, nullptr);
    png_read_end(png, nullptr);
  }

  static void fails(png_structp png, const char* message) {
    auto* const self = static_cast<Png*>(png_get_error_ptr(png));
    std::strncpy(self->message, message, sizeof(self->message) - 1);
    longjmp(self->buffer, 1);
  }
  static void warns(png_structp, const char*) {}  // about chunks that change no pixel
  static void reads(png_structp png, png_bytep to, size_t size) {
    auto& rest = static_cast<Png*>(png_get_io_ptr(png))->rest;
    if (size > rest.size()) png_error(png, "the file ends too early");
    std::memcpy(to, rest.data(), size);
    rest = rest.subspan(size);
  }

  std::span<const uint8_t> rest;  // unread part of the file
  png_structp png;
  png_infop info;
};

}  // namespace

// Warns once, because such images come in sets.
static void warn_if_dark(const Scratch& pixels) {
  const uint8_t lightest = *std::ranges::max_element(pixels);
  if (lightest == 0 || lightest >= 16) return;
  static std::once_flag told;
  std::call_once(told, [] {
    warn(
        "PNG: an image of 16 bits has no value above 4095, as if it had 12, so its 8 upper bits "
        "are almost black; scale the values of such images to 0..65535");
  });
}

Sample decode_png(std::span<const uint8_t> file, Scratch* scratch, const ViewOf&) {
  Png png(file);
  Sample sample;
  int bits = 0;  // bits of a value
  guarded("PNG", png, [&] {
    png_read_info(png.png, png.info);
    bits = png_get_bit_depth(png.png, png.info);
    sample = whole_image("PNG", png_get_image_height(png.png, png.info),
                         png_get_image_width(png.png, png.info), scratch,
                         [&](uint8_t* pixels) { png.read_rows(pixels); });
  });
  if (scratch && bits == 16) warn_if_dark(*scratch);
  return sample;
}

std::vector<uint8_t> encode_png(const uint8_t* pixels, int64_t height, int64_t width) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(height);
  image.width = static_cast<png_uint_32>(width);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::vector<uint8_t> file(size);
  if (!png_image_write_to_memory(&image, file.data(), &size, 0, pixels, 0, nullptr))
    fail(Exit::data, "PNG: ", image.message);
  file.resize(size);
  return file;
}

}  // namespace bellows
