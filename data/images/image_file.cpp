#include "data/images/image_file.h"
#include <algorithm>
#include <string_view>
#include "core/base/trace.h"

namespace bellows {

void check_size(const char* format, int64_t height, int64_t width) {
  const int64_t most = most_pixels();
  if (height < 1 || width < 1 || height > most / width)
    fail(Exit::data, format, ": ", width, " x ", height, " pixels; supported: 1 to ", most,
         " (data.max_pixels)");
}

namespace {

struct Format {
  const char* name;
  size_t at;               // where `magic` begins
  std::string_view magic;  // bytes of every such file
  Sample (*decode)(std::span<const uint8_t>, Scratch*, const ViewOf&) = nullptr;
  bool lossless = false;
};
using namespace std::string_view_literals;
constexpr Format kFormats[] = {
    {"JPEG", 0, "\xff\xd8"sv, decode_jpeg},
    {"PNG", 0, "\x89PNG"sv, decode_png, true},
    {"BMP", 0, "BM"sv, decode_bmp, true},
    {"WebP", 8, "WEBP"sv, decode_webp},
    {"PNM", 0, "P"sv, decode_pnm, true},
    // Other formats that are found in files named as images.
    {"GIF", 0, "GIF8"sv},
    {"TIFF", 0, "II*\0"sv},
    {"TIFF", 0, "MM\0*"sv},
    {"HEIC", 4, "ftyphei"sv},
    {"AVIF", 4, "ftypavif"sv},
    {"HTML", 0, "<!DOCTYPE"sv},
    {"macOS metadata (._)", 0, "\0\5\x16\7"sv},
    {"Git LFS pointer", 0, "version https://git-lfs"sv},
};

// Returns null for bytes that no format of the table begins with.
const Format* format_of(std::span<const uint8_t> file) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  const auto found = std::ranges::find_if(kFormats, [&](const Format& format) {
    return bytes.size() >= format.at && bytes.substr(format.at).starts_with(format.magic);
  });
  return found == std::end(kFormats) ? nullptr : found;
}

Sample decode(std::span<const uint8_t> file, Scratch* scratch, const ViewOf& wanted) {
  const Format* const format = format_of(file);
  if (format && format->decode) return format->decode(file, scratch, wanted);
  if (format)
    fail(Exit::data, "a ", format->name, " file; only JPEG, PNG, BMP, PNM and WebP are read");
  fail(Exit::data, file.empty() ? "the file is empty" : "neither JPEG nor PNG, BMP, PNM or WebP");
}

}  // namespace

bool is_lossless(std::span<const uint8_t> file) {
  const Format* const format = format_of(file);
  return format && format->lossless;
}

Shape image_shape(std::span<const uint8_t> file) { return decode(file, nullptr, {}).shape; }

void check_image(std::span<const uint8_t> file, Scratch& scratch) {
  decode(file, &scratch, [](const Shape& image) { return View{{0, 0, image[1], image[2]}, 8}; });
}

Sample decode_image(std::span<const uint8_t> file, Scratch& scratch, const ViewOf& wanted) {
  const Sample sample = decode(file, &scratch, wanted);
  const int64_t decoded = sample.part->height * sample.part->width;
  trace::count<"decode.pixels">(decoded);
  if (decoded < sample.shape[1] * sample.shape[2]) trace::count<"decode.scaled_images">();
  return sample;
}

}  // namespace bellows
