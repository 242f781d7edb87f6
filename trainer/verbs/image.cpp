#include "trainer/verbs/image.h"
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>
#include "core/base/file.h"
#include "core/base/output.h"
#include "data/images/file.h"
#include "data/images/image_file.h"
#include "data/images/image_plan.h"

namespace bellows {

static constexpr int64_t kMaxBytes = int64_t{1} << 28;

// ---- files and standard input

// Appends what comes from standard input next. Returns false at its end.
static bool read_more(std::string& all) {
  std::vector<char> piece(1 << 16);
  ssize_t got;
  do got = ::read(STDIN_FILENO, piece.data(), piece.size());
  while (got < 0 && errno == EINTR);
  if (got < 0) fail(Exit::data, "standard input: read: ", std::strerror(errno));
  all.append(piece.data(), got);
  if (std::ssize(all) > kMaxBytes)
    fail(Exit::data, "standard input: more than ", kMaxBytes, " bytes");
  return got > 0;
}

static std::string read_stdin() {
  std::string all;
  while (read_more(all)) continue;
  return all;
}

std::string read_path(const std::string& path) {
  return path == "-" ? read_stdin() : read_file(path, kMaxBytes, Exit::data);
}

void each_line(const std::string& path, const std::function<void(const std::string&)>& use) {
  std::string text = path == "-" ? "" : read_path(path);
  bool first = true;
  for (bool more = true; more;) {
    more = path == "-" && read_more(text);
    size_t begin = 0;
    for (size_t end; begin < text.size(); begin = end + 1) {
      end = text.find('\n', begin);
      if (end == text.npos && more) break;  // the rest of the line is still to come
      end = std::min(end, text.size());
      std::string line = text.substr(begin, end - begin);
      if (std::exchange(first, false) && line.starts_with("\xef\xbb\xbf"))
        line.erase(0, 3);  // a byte order mark
      if (line.ends_with('\r')) line.pop_back();
      if (!line.empty()) use(line);
    }
    text.erase(0, begin);
  }
}

std::vector<std::string> read_lines(const std::string& path) {
  std::vector<std::string> lines;
  each_line(path, [&](const std::string& line) { lines.push_back(line); });
  return lines;
}

std::vector<std::string> image_paths(const std::vector<std::string>& paths) {
  std::vector<std::string> all;
  for (const std::string& path : paths) {
    std::error_code unknown;
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

// ---- resizing

// Returns the pixels as (channels, height, width).
static std::vector<uint8_t> planes_of(const DecodedImage& image, int64_t channels) {
  std::vector<uint8_t> planes;
  planes.reserve(image.height * image.width * channels);
  for (int64_t c = 0; c < channels; ++c)
    for (size_t at = 0; at < image.pixels.size(); at += 3) {
      const uint8_t* const p = &image.pixels[at];
      planes.push_back(channels == 1
                           ? uint8_t(std::lround(0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2]))
                           : p[std::min<int64_t>(c, 2)]);
    }
  return planes;
}

std::vector<uint8_t> fitted(const DecodedImage& image, const Shape& shape) {
  const std::vector<uint8_t> planes = planes_of(image, shape[0]);
  ImagePlan plan({shape[0], image.height, image.width});
  const Sample source{planes.data(), plan.shape()};
  plan.resize(shape[1], shape[2]);
  std::vector<uint8_t> pixels(shape.numel());
  write_bytes(plan, source, pixels.data());
  return pixels;
}

}  // namespace bellows
