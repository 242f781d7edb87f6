#include "trainer/verbs/image.h"
#include <unistd.h>
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <sstream>
#include "core/base/file.h"
#include "data/images/image_file.h"

namespace bellows {

static constexpr int64_t kMaxBytes = int64_t{1} << 28;

static Image decoded(const std::string& bytes) {
  Scratch pixels;
  const Sample s =
      decode_image({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, pixels);
  return {s.shape[1], s.shape[2], 3, std::move(pixels)};
}

// ---- PGM and PPM: "P5 width height 255", then the bytes; comments run from # to the end of a line

static Image read_pnm(const std::string& bytes) {
  size_t at = 2;
  const auto number = [&]() -> int64_t {
    for (;; ++at) {
      if (at < bytes.size() && bytes[at] == '#') at = std::min(bytes.find('\n', at), bytes.size());
      if (at >= bytes.size() || !std::isspace(static_cast<unsigned char>(bytes[at]))) break;
    }
    int64_t value = -1;
    for (; at < bytes.size() && std::isdigit(static_cast<unsigned char>(bytes[at])); ++at)
      value = std::min<int64_t>(std::max<int64_t>(value, 0) * 10 + (bytes[at] - '0'), kMostPixels);
    return value;
  };
  const int64_t width = number(), height = number(), white = number();
  if (white != 255) fail(Exit::data, "PNM: only 8 bits a channel are read");
  check_size("PNM", height, width);
  Image image{height, width, bytes[1] == '5' ? 1 : 3, {}};
  image.pixels.resize(height * width * image.channels);
  ++at;  // the one white space after the header
  if (at + image.pixels.size() > bytes.size()) fail(Exit::data, "PNM: the file ends too early");
  std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at), image.pixels.size(),
              image.pixels.begin());
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
  std::istringstream text(read_path(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

static bool is_image(const Path& path) {
  std::string suffix = path.extension();
  std::ranges::transform(suffix, suffix.begin(), [](unsigned char c) { return std::tolower(c); });
  return suffix == ".png" || suffix == ".jpg" || suffix == ".jpeg" || suffix == ".pgm" ||
         suffix == ".ppm";
}

static std::vector<std::string> images_below(const Path& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> found;
  std::error_code error, unknown;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    if (at->is_regular_file(unknown) && is_image(at->path())) found.push_back(at->path());
  if (error) fail(Exit::data, printable(folder.native()), ": ", error.message());
  if (found.empty())
    fail(Exit::data, printable(folder.native()),
         ": no .png, .jpg, .jpeg, .pgm or .ppm file in this folder; name the files themselves");
  std::ranges::sort(found);
  return found;
}

std::vector<std::string> image_paths(const std::vector<std::string>& paths) {
  std::vector<std::string> all;
  for (const std::string& path : paths) {
    std::error_code unknown;
    if (!std::filesystem::is_directory(path, unknown)) {
      all.push_back(path);
      continue;
    }
    const auto found = images_below(path);
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

Image read_image(const std::string& path) {
  const std::string bytes = read_path(path);
  const bool pnm = bytes.starts_with("P5") || bytes.starts_with("P6");
  try {
    return pnm ? read_pnm(bytes) : decoded(bytes);
  } catch (const Error& error) {
    fail(error.exit, printable(path), ": ", error.what());
  }
}

// ---- resizing

// Weights of the old pixels that a new pixel covers, along one axis.
struct Cover {
  int64_t first;
  std::vector<double> weights;  // of first, first + 1, ...; they sum to 1
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
