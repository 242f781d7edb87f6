// Decodes image files (JPEG, PNG, BMP, PNM, WebP) and encodes JPEG and PNG.
#pragma once
#include <atomic>
#include <initializer_list>
#include <span>
#include "data/images/sample.h"

namespace bellows {

// File suffixes that data sets and `trainer predict` look for, in lower case.
inline constexpr std::initializer_list<const char*> kImageSuffixes = {
    ".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".pgm", ".pnm", ".webp"};

// Largest image that is decoded, in pixels: data.max_pixels, for the whole process.
inline constexpr int64_t kMostPixels = int64_t{1} << 26;  // the default
inline std::atomic<int64_t>& most_pixels() {
  static std::atomic<int64_t> most = kMostPixels;
  return most;
}
// Checks the size in a file's header, before anything of that size is allocated: from 1 to
// most_pixels() pixels. `format` is for the message. Throws Error(Exit::data).
void check_size(const char* format, int64_t height, int64_t width);

// Returns true for a PNG, BMP or PNM file, by its first bytes.
bool is_lossless(std::span<const uint8_t> file);

// Returns (3, H, W) of an image file, from its header alone. Throws Error(Exit::data) as
// decode_image() does. Thread-safe.
Shape image_shape(std::span<const uint8_t> file);

// Throws Error(Exit::data) if decode_image() of the whole file would. Decodes a JPEG at 1/8 of its
// size, which is faster and finds the same damage. Thread-safe.
void check_image(std::span<const uint8_t> file, Scratch& scratch);

// Decodes an image file, detected by its content, into `scratch`; the label is 0. `wanted` selects
// the view that is needed, without it the whole image: see decode_jpeg() and the others for this
// and for errors. Thread-safe. Counters: decode.pixels and, if fewer pixels were decoded than the
// image has, decode.scaled_images.
Sample decode_image(std::span<const uint8_t> file, Scratch& scratch, const ViewOf& wanted = {});
// Decodes a file and sets its label.
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
// ignored. Throws Error(Exit::data) for a file that is damaged, or has more than most_pixels()
// or more scans than any encoder writes. Thread-safe.
Sample decode_jpeg(std::span<const uint8_t> file, Scratch* scratch, const ViewOf& wanted);

// Returns the JPEG file of an RGB image, (height, width, 3) bytes. Chroma is subsampled 4:2:0, as
// cameras do. `quality` is libjpeg's, 1 to 100. Throws Error(Exit::data). Thread-safe.
std::vector<uint8_t> encode_jpeg(const uint8_t* pixels, int64_t height, int64_t width, int quality);

// ---- PNG, with libpng

// Decodes the whole image; without a scratch, only the header. The sample is RGB, interleaved, in
// `scratch`; its label is 0. Palettes and gray are expanded, 16 bits cut to 8 (with one warning if
// that leaves an image almost black), alpha and gamma ignored. Throws Error(Exit::data) for a file
// that is damaged or has more than most_pixels(). Thread-safe.
Sample decode_png(std::span<const uint8_t> file, Scratch* scratch, const ViewOf&);

// Returns the PNG file of an RGB image, (height, width, 3) bytes. Throws Error(Exit::data).
// Thread-safe.
std::vector<uint8_t> encode_png(const uint8_t* pixels, int64_t height, int64_t width);

// ---- As decode_png(). BMP: 8, 24 or 32 bits a pixel, not compressed. PNM: P5 and P6 with values
// of one byte, scaled to 0..255 and rounded as Pillow does. WebP, with libwebp: no animations.

Sample decode_bmp(std::span<const uint8_t> file, Scratch* scratch, const ViewOf&);
Sample decode_pnm(std::span<const uint8_t> file, Scratch* scratch, const ViewOf&);
Sample decode_webp(std::span<const uint8_t> file, Scratch* scratch, const ViewOf&);

// For these decoders: checks the size, calls fill(pixels), which writes (height, width, 3) bytes to
// `scratch`, and returns the sample; without a scratch, only its shape.
template <class Fill>
Sample whole_image(const char* format, int64_t height, int64_t width, Scratch* scratch,
                   const Fill& fill) {
  check_size(format, height, width);
  Sample sample{.shape = {3, height, width}};
  if (!scratch) return sample;
  scratch->resize(sample.shape.numel());
  fill(scratch->data());
  sample.pixels = scratch->data();
  sample.part = {.height = height, .width = width, .interleaved = true};
  return sample;
}

}  // namespace bellows
