#include "trainer/verbs/image.h"
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <sstream>
#include "core/base/file.h"
#include "core/base/output.h"
#include "data/images/file.h"
#include "data/images/image_file.h"
#include "data/images/image_plan.h"

namespace bellows {

static constexpr int64_t kMaxBytes = int64_t{1} << 28;

static DecodedImage decoded(const std::string& bytes) {
  Scratch pixels;
  const Sample s =
      decode_image({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, pixels);
  return {s.shape[1], s.shape[2], 3, std::move(pixels)};
}

// ---- PGM and PPM: "P5 width height 255", then the bytes; comments run from # to the end of a line

static DecodedImage read_pnm(const std::string& bytes) {
  std::istringstream in(bytes);
  in.ignore(2);
  const auto number = [&] {
    while ((in >> std::ws).peek() == '#') in.ignore(kMaxBytes, '\n');
    int64_t value = -1;
    in >> value;
    return value;
  };
  const int64_t width = number(), height = number(), white = number();
  if (white != 255) fail(Exit::data, "PNM: only 8 bits a channel are read");
  check_size("PNM", height, width);
  DecodedImage image{height, width, bytes[1] == '5' ? 1 : 3, {}};
  image.pixels.resize(height * width * image.channels);
  in.ignore();  // the one white space after the header
  in.read(reinterpret_cast<char*>(image.pixels.data()), std::ssize(image.pixels));
  if (in.gcount() != std::ssize(image.pixels)) fail(Exit::data, "PNM: the file ends too early");
  return image;
}

// ---- files and standard input

static std::string read_stdin() {
  std::string all;
  std::vector<char> piece(1 << 16);
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(Exit::data, "standard input: read: ", std::strerror(errno));
    if (got == 0) return all;
    all.append(piece.data(), got);
    if (std::ssize(all) > kMaxBytes)
      fail(Exit::data, "standard input: more than ", kMaxBytes, " bytes");
  }
}

static std::string read_path(const std::string& path) {
  return path == "-" ? read_stdin() : read_file(path, kMaxBytes, Exit::data);
}

std::vector<std::string> read_lines(const std::string& path) {
  std::string whole = read_path(path);
  if (whole.starts_with("\xef\xbb\xbf")) whole.erase(0, 3);  // a byte order mark
  std::istringstream text(whole);
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) lines.push_back(line);
  }
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
    const FoundFiles found = files_below(path, {".png", ".jpg", ".jpeg", ".pgm", ".ppm"});
    if (!found.dangling.empty()) warn(left_out(path, found.dangling));
    if (found.paths.empty())
      fail(Exit::data, printable(path),
           ": no .png, .jpg, .jpeg, .pgm or .ppm file in this folder; name the files themselves");
    all.insert(all.end(), found.paths.begin(), found.paths.end());
  }
  return all;
}

DecodedImage read_image(const std::string& path) {
  const std::string bytes = read_path(path);
  const bool pnm = bytes.starts_with("P5") || bytes.starts_with("P6");
  try {
    return pnm ? read_pnm(bytes) : decoded(bytes);
  } catch (const Error& error) {
    fail(error.exit, printable(path), ": ", error.what());
  }
}

// ---- resizing

// Returns the pixels as (channels, height, width).
static std::vector<uint8_t> planes_of(const DecodedImage& image, int64_t channels) {
  const bool grays = channels == 1 && image.channels == 3;
  std::vector<uint8_t> planes;
  planes.reserve(image.height * image.width * channels);
  for (int64_t c = 0; c < channels; ++c)
    for (size_t at = 0; at < image.pixels.size(); at += image.channels) {
      const uint8_t* const p = &image.pixels[at];
      planes.push_back(grays ? uint8_t(std::lround(0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2]))
                             : p[std::min(c, image.channels - 1)]);
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
