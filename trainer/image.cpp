#include "trainer/image.h"
#include <png.h>
#include <algorithm>
#include <cctype>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <memory>
// jpeglib.h needs the two above it.
#include <jpeglib.h>
#include "core/file.h"

namespace bellows {

static constexpr int64_t kMaxPixels = int64_t{1} << 26, kMaxBytes = int64_t{1} << 28;

[[noreturn]] static void refuse(const std::string& path, const std::string& why) {
  fail(Exit::data, printable(path), ": ", why);
}

static Image blank(const std::string& path, int64_t height, int64_t width, int64_t channels) {
  if (height < 1 || width < 1 || height > kMaxPixels / width)
    refuse(path, cat(width, " x ", height, " pixels; at most ", kMaxPixels, " are read"));
  return {height, width, channels, std::vector<uint8_t>(height * width * channels)};
}

// ---- PNG: libpng's simplified interface returns its errors

static Image read_png(const std::string& path, const std::string& bytes) {
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()))
    refuse(path, cat("PNG: ", png.message));
  const bool grey = !(png.format & PNG_FORMAT_FLAG_COLOR);
  png.format = grey ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  const std::unique_ptr<png_image, decltype(&png_image_free)> owner(&png, png_image_free);
  Image image = blank(path, png.height, png.width, grey ? 1 : 3);
  if (!png_image_finish_read(&png, nullptr, image.pixels.data(), 0, nullptr))
    refuse(path, cat("PNG: ", png.message));
  return image;
}

// ---- JPEG: libjpeg reports by a jump, which must not cross a C++ object that has a destructor

namespace {
struct JpegErrors {
  jpeg_error_mgr manager;  // first: libjpeg hands its address back
  jmp_buf escape;
  char message[JMSG_LENGTH_MAX];
};
}  // namespace

extern "C" {
static void jpeg_fails(j_common_ptr jpeg) {
  auto* errors = reinterpret_cast<JpegErrors*>(jpeg->err);
  jpeg->err->format_message(jpeg, errors->message);
  longjmp(errors->escape, 1);
}
// A damaged file is refused: a warning counts as a failure.
static void jpeg_warns(j_common_ptr jpeg, int level) {
  if (level < 0) jpeg_fails(jpeg);
}
}

// False: the message says why. `image` gets its memory from `make`, which may refuse the size.
static bool decode_header(jpeg_decompress_struct& jpeg, JpegErrors& errors,
                          const std::string& bytes) {
  if (setjmp(errors.escape)) return false;
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = jpeg.jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_calc_output_dimensions(&jpeg);
  return true;
}

static bool decode_rows(jpeg_decompress_struct& jpeg, JpegErrors& errors, uint8_t* pixels) {
  if (setjmp(errors.escape)) return false;
  jpeg_start_decompress(&jpeg);
  const size_t stride = size_t{jpeg.output_width} * jpeg.output_components;
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = pixels + jpeg.output_scanline * stride;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

static Image read_jpeg(const std::string& path, const std::string& bytes) {
  JpegErrors errors = {};
  jpeg_decompress_struct jpeg = {};
  jpeg.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = jpeg_fails;
  errors.manager.emit_message = jpeg_warns;
  jpeg_create_decompress(&jpeg);
  const std::unique_ptr<jpeg_decompress_struct, decltype(&jpeg_destroy_decompress)> owner(
      &jpeg, jpeg_destroy_decompress);
  if (!decode_header(jpeg, errors, bytes)) refuse(path, cat("JPEG: ", errors.message));
  Image image = blank(path, jpeg.output_height, jpeg.output_width,
                      jpeg.out_color_space == JCS_GRAYSCALE ? 1 : 3);
  if (!decode_rows(jpeg, errors, image.pixels.data())) refuse(path, cat("JPEG: ", errors.message));
  return image;
}

// ---- PGM and PPM: "P5 width height 255" and the bytes; comments run from # to the line's end

static Image read_pnm(const std::string& path, const std::string& bytes) {
  size_t at = 2;
  const auto number = [&]() -> int64_t {
    for (;; ++at) {
      if (at < bytes.size() && bytes[at] == '#') at = std::min(bytes.find('\n', at), bytes.size());
      if (at >= bytes.size() || !std::isspace(static_cast<unsigned char>(bytes[at]))) break;
    }
    int64_t value = -1;
    for (; at < bytes.size() && std::isdigit(static_cast<unsigned char>(bytes[at])); ++at)
      value = std::min<int64_t>(std::max<int64_t>(value, 0) * 10 + (bytes[at] - '0'), kMaxPixels);
    return value;
  };
  const int64_t width = number(), height = number(), white = number();
  if (white != 255) refuse(path, "PNM: only 8 bits a channel are read");
  Image image = blank(path, height, width, bytes[1] == '5' ? 1 : 3);
  ++at;  // the one white space behind the header
  if (at + image.pixels.size() > bytes.size()) refuse(path, "PNM: the file ends too early");
  std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at), image.pixels.size(),
              image.pixels.begin());
  return image;
}

Image read_image(const std::string& path) {
  const std::string bytes = read_file(path, kMaxBytes, Exit::data);
  if (bytes.starts_with("\x89PNG")) return read_png(path, bytes);
  if (bytes.starts_with("\xff\xd8")) return read_jpeg(path, bytes);
  if (bytes.starts_with("P5") || bytes.starts_with("P6")) return read_pnm(path, bytes);
  refuse(path, "neither PNG, JPEG, PGM nor PPM");
}

// ---- fitting

// Along one axis: how much of each old pixel a new one covers.
struct Cover {
  int64_t first;
  std::vector<double> weights;  // of first, first + 1, ...; their sum is 1
};
static std::vector<Cover> covers(int64_t from, int64_t to) {
  std::vector<Cover> all;
  const double step = static_cast<double>(from) / to;
  for (int64_t i = 0; i < to; ++i) {
    const double begin = i * step, end = begin + step;
    Cover cover{static_cast<int64_t>(begin), {}};
    for (int64_t j = cover.first; j < from && j < end; ++j)
      cover.weights.push_back((std::min(end, j + 1.0) - std::max<double>(begin, j)) / step);
    all.push_back(std::move(cover));
  }
  return all;
}

static double channel_at(const uint8_t* pixel, int64_t channels, int64_t wanted, int64_t c) {
  if (channels == 3 && wanted == 1) return 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2];
  return pixel[std::min(c, channels - 1)];
}

std::vector<uint8_t> fitted(const Image& image, int64_t channels, int64_t height, int64_t width) {
  const std::vector<Cover> rows = covers(image.height, height),
                           columns = covers(image.width, width);
  std::vector<uint8_t> planes;
  for (int64_t c = 0; c < channels; ++c)
    for (const Cover& row : rows)
      for (const Cover& column : columns) {
        double sum = 0;
        for (size_t y = 0; y < row.weights.size(); ++y)
          for (size_t x = 0; x < column.weights.size(); ++x) {
            const int64_t at = (row.first + y) * image.width + column.first + x;
            sum += row.weights[y] * column.weights[x] *
                   channel_at(&image.pixels[at * image.channels], image.channels, channels, c);
          }
        planes.push_back(static_cast<uint8_t>(std::lround(std::clamp(sum, 0.0, 255.0))));
      }
  return planes;
}

}  // namespace bellows
