#include "data/images/image_plan.h"
#include <immintrin.h>
#include <cmath>
#include "data/images/filter.h"

namespace bellows {

// ---- the plan

void ImagePlan::resize(const Rectangle& part, int64_t height, int64_t width) {
  static_cast<Frame&>(*this) = Frame(height, width);
  part_ = part;
  resized_height_ = height, resized_width_ = width;
}

void ImagePlan::resize_short_side(int64_t size) {
  const int64_t shorter = std::min(height(), width());
  resize(size * height() / shorter, size * width() / shorter);
}

bool ImagePlan::is_source() const {
  const bool whole = part_.height == source_[1] && part_.width == source_[2];
  return whole && rows.are_all(source_[1]) && columns.are_all(source_[2]) && !colors;
}

// Returns begin and size of the source pixels that an axis reads: at least one, because a decoder
// cannot return an empty image. If all output is black, none is read.
static std::pair<int64_t, int64_t> part_of(const Axis& axis) {
  const ReadRange range = read_range(axis, {.size = axis.high});
  if (range.begin >= range.end) return {0, 1};
  return {range.begin, range.end - range.begin};
}

View ImagePlan::view() const {
  const Axis down = row_axis(), across = column_axis();
  const auto [top, height] = part_of(down);
  const auto [left, width] = part_of(across);
  return {{top, left, height, width}, std::min(down.step, across.step)};
}

// ---- the pixels

namespace {

constexpr Levels kAsTheyAre{{1, 1, 1, 1}};

// Calls fn(count) with a compile-time constant for small counts, so that loops are unrolled.
template <class Fn> void unrolled(int64_t count, const Fn& fn) {
  if (count == 1) return fn(std::integral_constant<int64_t, 1>());
  if (count == 2) return fn(std::integral_constant<int64_t, 2>());
  if (count == 3) return fn(std::integral_constant<int64_t, 3>());
  if (count == 4) return fn(std::integral_constant<int64_t, 4>());
  fn(count);
}

// Resamples row by row: blends source rows into one line, then the line's pixels into the output
// row. The line keeps the memory order of the source, so that blending rows runs along memory.
class Writer {
 public:
  // row_step, channel_step: strides of `out`, in elements; the pixels of a row are adjacent.
  Writer(const ImagePlan& image, const Sample& sample, float* out, int64_t row_step,
         int64_t channel_step)
      : image_(image),
        sample_(sample),
        part_(sample.part.value_or(Part{.height = sample.shape[1], .width = sample.shape[2]})),
        rows_(image.row_axis(), {part_.top, part_.height, part_.reduced}),
        columns_(image.column_axis(), {part_.left, part_.width, part_.reduced}),
        line_(part_.width * image.channels() + 1),
        mixed_(image.colors ? kAsTheyAre : image.levels),
        out_(out),
        row_step_(row_step),
        channel_step_(channel_step) {}

  // Calls done(y) after each row.
  template <class Fn> void write(const Fn& done) {
    for (int64_t y = 0; y < image_.height(); ++y) {
      mix_rows(y);
      mix_columns(y);
      if (image_.colors) apply_colors(*image_.colors, y);
      done(y);
    }
  }

 private:
  std::span<float> row(int64_t channel, int64_t y) const {
    return {out_ + channel * channel_step_ + y * row_step_, static_cast<size_t>(image_.width())};
  }

  void mix_rows(int64_t y) {
    const int64_t channels = image_.channels(), begin = columns_.begin();
    const int64_t used = std::max<int64_t>(0, columns_.end() - begin);
    if (part_.interleaved)
      return mix_run(y, 0, part_.width * channels, begin * channels, used * channels);
    for (int64_t c = 0; c < channels; ++c) mix_run(y, c, part_.width, begin, used);
  }
  // Blends a plane's rows, `size` bytes from `begin` on, into the same place of the line.
  void mix_run(int64_t y, int64_t plane, int64_t stride, int64_t begin, int64_t size) {
    const uint8_t* in =
        sample_.pixels + (plane * part_.height + rows_.firsts()[y]) * stride + begin;
    float* const line = line_.data() + plane * stride + begin;
    const float* weights = rows_.weights(y);
    for (int64_t rest = rows_.taps(); rest > 0; rest -= 4, weights += 4, in += 4 * stride)
      unrolled(std::min<int64_t>(rest, 4), [&](auto taps) {
        const bool first = rest == rows_.taps();
        for (int64_t i = 0; i < size; ++i) {
          float sum = first ? 0 : line[i];
          for (int64_t k = 0; k < taps; ++k)
            sum = std::fma(weights[k], float(in[k * stride + i]), sum);
          line[i] = sum;
        }
      });
  }

  void mix_columns(int64_t y) const {
    const int64_t channels = image_.channels();
    if (part_.interleaved && channels == 3 && image_.width() >= 4)
      return unrolled(columns_.taps(), [&](auto taps) { mix_pixels(taps, y); });
    for (int c = 0; c < channels; ++c)
      part_.interleaved ? mix_channel(c, line_.data() + c, channels, row(c, y))
                        : mix_channel(c, line_.data() + c * part_.width, 1, row(c, y));
  }
  void mix_channel(int channel, const float* line, int64_t stride, std::span<float> out) const {
    for (size_t x = 0; x < out.size(); ++x) {
      const float* const weights = columns_.weights(x);
      const float* const in = line + columns_.firsts()[x] * stride;
      float sum = 0;
      for (int64_t k = 0; k < columns_.taps(); ++k) sum = std::fma(weights[k], in[k * stride], sum);
      out[x] = mixed_.at(channel, sum);
    }
  }
  // As mix_channel(), with the same bits, for interleaved RGB. Loads each of four pixels as a
  // vector of its three colors and the value after them.
  void mix_pixels(auto taps, int64_t y) const {
    float* const out[] = {row(0, y).data(), row(1, y).data(), row(2, y).data()};
    const float *const line = line_.data(), *const all_weights = columns_.weights(0);
    const int32_t* const all_firsts = columns_.firsts();
    for (int64_t at = 0, width = image_.width(); at < width; at += 4) {
      const int64_t x = std::min(at, width - 4);
      const float* const weights = all_weights + x * taps;
      const float* in[4];
      for (int i = 0; i < 4; ++i) in[i] = line + all_firsts[x + i] * int64_t{3};
      __m128 p[4] = {};
      for (int64_t k = 0; k < taps; ++k)
        for (int i = 0; i < 4; ++i)
          p[i] =
              _mm_fmadd_ps(_mm_set1_ps(weights[i * taps + k]), _mm_loadu_ps(in[i] + 3 * k), p[i]);
      _MM_TRANSPOSE4_PS(p[0], p[1], p[2], p[3]);
      for (int c = 0; c < 3; ++c)
        _mm_storeu_ps(out[c] + x, _mm_fmadd_ps(p[c], _mm_set1_ps(mixed_.scale[c]),
                                               _mm_set1_ps(mixed_.shift[c])));
    }
  }

  void apply_colors(const Colors& colors, int64_t y) {
    const std::span<float> rgb[] = {row(0, y), row(1, y), row(2, y)};
    for (size_t x = 0; x < rgb[0].size(); ++x) {
      float mapped[3];
      for (int c = 0; c < 3; ++c) mapped[c] = colors.at(c, rgb[0][x], rgb[1][x], rgb[2][x]);
      if (colors.turn != 0) turn_hue(colors.turn, mapped[0], mapped[1], mapped[2]);
      for (int c = 0; c < 3; ++c) rgb[c][x] = image_.levels.at(c, mapped[c]);
    }
  }

  const ImagePlan& image_;
  const Sample& sample_;
  const Part part_;
  const Filter rows_, columns_;
  std::vector<float> line_;  // includes one unused value after the last pixel
  const Levels mixed_;       // applied after blending; identity if colors come before levels
  float* const out_;
  const int64_t row_step_, channel_step_;
};

}  // namespace

// Fast path without resampling; same values as Writer's. Rows are adjacent, so a plane is one long
// row.
static void write_levels(const ImagePlan& image, const uint8_t* pixels, float* out,
                         const Strides& strides) {
  const int64_t plane = image.height() * image.width(), step = strides[3];
  for (int c = 0; c < image.channels(); ++c, pixels += plane, out += strides[1])
    if (step == 1)
      for (int64_t i = 0; i < plane; ++i) out[i] = image.levels.at(c, pixels[i]);
    else
      for (int64_t i = 0; i < plane; ++i) out[i * step] = image.levels.at(c, pixels[i]);
}

static void write_hole(const ImagePlan& image, float* out, const Strides& strides) {
  const Rectangle& hole = image.hole;
  for (int64_t c = 0; c < image.channels(); ++c)
    for (int64_t y = hole.top; y < hole.top + hole.height; ++y)
      for (int64_t x = hole.left; x < hole.left + hole.width; ++x)
        out[c * strides[1] + y * strides[2] + x * strides[3]] = 0;
}

// Writes round(value) for each value; for rows that are not adjacent in `out`, or not of floats.
template <class T, class Round>
static void write_rows(const ImagePlan& image, const Sample& sample, T* out, const Strides& strides,
                       const Round& round) {
  const int64_t width = image.width();
  std::vector<float> rows(image.channels() * width);
  Writer(image, sample, rows.data(), 0, width).write([&](int64_t y) {
    for (int64_t c = 0; c < image.channels(); ++c) {
      const float* const row = rows.data() + c * width;
      T* const to = out + c * strides[1] + y * strides[2];
      for (int64_t x = 0; x < width; ++x) to[x * strides[3]] = round(row[x]);
    }
  });
}

static Strides strides_in(const ImagePlan& image, const MemoryFormat& format) {
  return strides_of({1, image.channels(), image.height(), image.width()}, format);
}

void write_image(const ImagePlan& image, const Sample& sample, float* out,
                 const MemoryFormat& format) {
  const Strides strides = strides_in(image, format);
  if (image.levels_only() && !sample.part)
    write_levels(image, sample.pixels, out, strides);
  else if (strides[3] == 1)
    Writer(image, sample, out, strides[2], strides[1]).write([](int64_t) {});
  else
    write_rows(image, sample, out, strides, [](float value) { return value; });
  write_hole(image, out, strides);
}

void write_bytes(const ImagePlan& image, const Sample& sample, uint8_t* out,
                 const MemoryFormat& format) {
  if (image.is_source() && !sample.part && format == kNCHW) {
    std::copy_n(sample.pixels, image.shape().numel(), out);
    return;
  }
  ImagePlan plain = image;
  plain.levels = kAsTheyAre;
  write_rows(plain, sample, out, strides_in(image, format),
             [](float value) { return uint8_t(std::lround(value)); });
}

}  // namespace bellows
