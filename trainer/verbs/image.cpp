#include "trainer/verbs/image.h"
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <sstream>
#include "core/base/file.h"
#include "core/base/output.h"
#include "data/images/file.h"
#include "data/images/image_file.h"
#include "data/images/image_plan.h"

namespace bellows {

static constexpr int64_t kMaxBytes = int64_t{1} << 28;

static void check_stdin() {
  if (std::ferror(stdin)) fail(Exit::data, "standard input: read: ", std::strerror(errno));
}

std::string read_path(const std::string& path) {
  if (path != "-") return read_file(path, kMaxBytes, Exit::data);
  std::string all;
  for (int c; (c = std::getchar()) != EOF;) {
    all.push_back(char(c));
    if (std::ssize(all) > kMaxBytes)
      fail(Exit::data, "standard input: more than ", kMaxBytes, " bytes");
  }
  check_stdin();
  return all;
}

void each_line(const std::string& path, const std::function<void(const std::string&)>& use) {
  std::istringstream file(path == "-" ? "" : read_path(path));
  std::istream& lines = path == "-" ? std::cin : file;
  bool first = true;
  for (std::string line; std::getline(lines, line); first = false) {
    if (first && line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);  // a byte order mark
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) use(line);
  }
  check_stdin();
}

std::vector<std::string> image_paths(const std::vector<std::string>& paths) {
  std::vector<std::string> all;
  std::error_code unknown;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path, unknown)) {
      all.push_back(path);
      continue;
    }
    const auto [found, left_out] = images_below(path);
    if (!left_out.empty()) warn(text_of(path, left_out));
    if (found.empty())
      fail(Exit::data, printable(path),
           ": no image in this folder (.png, .jpg, .bmp, .ppm, .webp); name the files themselves");
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

DecodedImage read_image(const std::string& path) {
  const std::string bytes = read_path(path);
  try {
    Scratch pixels;
    const Sample s =
        decode_image({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, pixels);
    return {s.shape[1], s.shape[2], std::move(pixels)};
  } catch (const Error& error) {
    fail(error.exit, printable(path), ": ", error.what());
  }
}

std::vector<uint8_t> fitted(const DecodedImage& image, const Shape& shape) {
  std::vector<uint8_t> planes;  // (channels, height, width)
  for (int64_t c = 0; c < shape[0]; ++c)
    for (size_t at = 0; at < image.pixels.size(); at += 3) {
      const uint8_t* const p = &image.pixels[at];
      planes.push_back(shape[0] == 1
                           ? uint8_t(std::lround(0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2]))
                           : p[std::min<int64_t>(c, 2)]);
    }
  ImagePlan plan({shape[0], image.height, image.width});
  const Sample source{planes.data(), plan.shape()};
  plan.resize(shape[1], shape[2]);
  std::vector<uint8_t> pixels(shape.numel());
  write_bytes(plan, source, pixels.data());
  return pixels;
}

}  // namespace bellows
