// Small images, and JPEG and PNG files of them, written with libjpeg and libpng.
#pragma once
#include <png.h>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>
// jpeglib.h needs <cstdio>.
#include <jpeglib.h>

namespace bellows {

struct Pixels {
  int height, width, channels;
  std::vector<uint8_t> bytes;  // (height, width, channels)
};

// Returns smooth ramps, which JPEG changes little.
inline Pixels slopes(int height, int width, int channels = 3) {
  Pixels p{height, width, channels, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c)
        p.bytes.push_back(uint8_t(c == 0 ? 255 * y / height : c == 1 ? 255 * x / width : 90 + y));
  return p;
}

struct JpegForm {
  int quality = 95;
  int subsampling = 1;  // chroma; 2: 4:2:0; 4: by 4 along rows, by 2 along columns
  bool progressive = false;
  std::vector<jpeg_scan_info> scans = {};  // instead of libjpeg's own
};

inline std::string as_jpeg(const Pixels& p, const JpegForm& form = {}) {
  jpeg_compress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_height = p.height;
  jpeg.image_width = p.width;
  jpeg.input_components = p.channels;
  jpeg.in_color_space = p.channels == 1 ? JCS_GRAYSCALE : p.channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, form.quality, TRUE);
  jpeg.comp_info[0].h_samp_factor = form.subsampling;
  jpeg.comp_info[0].v_samp_factor = std::min(form.subsampling, 2);
  if (form.progressive) jpeg_simple_progression(&jpeg);
  if (!form.scans.empty()) {
    jpeg.scan_info = form.scans.data();
    jpeg.num_scans = int(form.scans.size());
  }
  jpeg_start_compress(&jpeg, TRUE);
  for (int y = 0; y < p.height; ++y) {
    JSAMPROW row = const_cast<uint8_t*>(&p.bytes[size_t(y) * p.width * p.channels]);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  const std::string file(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&jpeg);
  std::free(bytes);
  return file;
}

// channels: 1 to 4 for gray, gray with alpha, RGB, RGBA. With 16 bits, p has the upper bytes.
inline std::string as_png(const Pixels& p, int bits = 8, bool interlaced = false,
                          const std::vector<png_color>& palette = {}) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &file,
      [](png_structp png, png_bytep from, size_t size) {
        static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<char*>(from), size);
      },
      nullptr);
  constexpr int kTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GA, PNG_COLOR_TYPE_RGB,
                            PNG_COLOR_TYPE_RGBA};
  const int type = palette.empty() ? kTypes[p.channels - 1] : PNG_COLOR_TYPE_PALETTE;
  png_set_IHDR(png, info, p.width, p.height, bits, type,
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (!palette.empty()) png_set_PLTE(png, info, palette.data(), int(palette.size()));
  png_write_info(png, info);
  std::vector<uint8_t> wide;
  for (const uint8_t byte : p.bytes) wide.insert(wide.end(), {byte, 0x5a});
  const std::vector<uint8_t>& bytes = bits == 16 ? wide : p.bytes;
  std::vector<png_bytep> rows;
  for (int y = 0; y < p.height; ++y)
    rows.push_back(const_cast<uint8_t*>(&bytes[bytes.size() / p.height * y]));
  png_write_image(png, rows.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

}  // namespace bellows
