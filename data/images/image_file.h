// Decodes and encodes image files, JPEG or PNG.
#pragma once
#include <span>
#include "data/images/sample.h"

namespace bellows {

inline constexpr int64_t kMostPixels = int64_t{1} << 26;  // largest image that is decoded

// Checks the size in a file's header, before anything of that size is allocated: from 1 to
// kMostPixels pixels. `format` is for the message. Throws Error(Exit::data).
void check_size(const char* format, int64_t height, int64_t width);

bool is_png(std::span<const uint8_t> file);  // by its first bytes

// Returns (3, H, W) of a JPEG or PNG file, from its header alone. Throws Error(Exit::data) as
// decode_image() does. Thread-safe.
Shape image_shape(std::span<const uint8_t> file);

// Decodes a JPEG or PNG file, detected by its content, into `scratch`; the label is 0. `wanted`
// selects the view that is needed, without it the whole image: see decode_jpeg()
// and decode_png() for this and for errors. Thread-safe. Counters: decode.pixels and, if fewer
// pixels were decoded than the image has, decode.scaled_images.
Sample decode_image(std::span<const uint8_t> file, Scratch& scratch, const ViewOf& wanted = {});
// The same for a file with its label.
inline Sample decode_image(const EncodedSample& from, Scratch& scratch, const ViewOf& wanted) {
  Sample sample = decode_image(from.file, scratch, wanted);
  sample.label = from.label;
  return sample;
}

// ---- JPEG, with libjpeg-turbo

// Decodes at least the part of the image that `wanted` selects, with the same bits as in the whole
// image; without `wanted`, the whole image. If the view's step is 2 or more, decodes at 1/2, 1/4 or
// 1/8 of the size, which is not exactly the mean of the pixels. Damage after the part is not
// noticed.
//
// The sample is RGB, interleaved, in `scratch`; its label is 0. Without a scratch, only the header
// is read, and the sample has only a shape. Gray is expanded, CMYK converted, an Exif orientation
// ignored. Throws Error(Exit::data) for a file that is damaged, or has more than kMostPixels or
// more scans than any encoder writes. Thread-safe.
Sample decode_jpeg(std::span<const uint8_t> file, Scratch* scratch, const ViewOf& wanted);

// Returns the JPEG file of an RGB image, (height, width, 3) bytes. Chroma is subsampled 4:2:0, as
// cameras do. `quality` is libjpeg's, 1 to 100. Throws Error(Exit::data). Thread-safe.
std::vector<uint8_t> encode_jpeg(const uint8_t* pixels, int64_t height, int64_t width, int quality);

// ---- PNG, with libpng

// Decodes the whole image, or as above only the header. The sample is RGB, interleaved, in
// `scratch`; its label is 0. Palettes and gray are expanded, 16 bits cut to 8, alpha and gamma
// ignored. Throws Error(Exit::data) for a file that is damaged or has more than kMostPixels.
// Thread-safe.
Sample decode_png(std::span<const uint8_t> file, Scratch* scratch);

// Returns the PNG file of an RGB image, (height, width, 3) bytes. Throws Error(Exit::data).
// Thread-safe.
std::vector<uint8_t> encode_png(const uint8_t* pixels, int64_t height, int64_t width);

}  // namespace bellows
