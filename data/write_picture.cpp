#include "data/write_picture.h"
#include "data/filter.h"

namespace bellows {

static Part all_of(const Shape& shape) { return {.height = shape[1], .width = shape[2]}; }

namespace {

// Row by row of what is written: the source's rows are mixed to one line, whose pixels are mixed to
// the row. The line has the order of the source, so that mixing rows runs along memory.
class Writer {
 public:
  Writer(const Picture& picture, const Sample& sample, float* out)
      : picture_(picture),
        sample_(sample),
        part_(sample.part.value_or(all_of(sample.shape))),
        rows_(picture.rows(), {part_.top, part_.height, part_.reduced}),
        columns_(picture.columns(), {part_.left, part_.width, part_.reduced}),
        line_(part_.width * picture.channels()),
        out_(out) {}

  void write() {
    for (int64_t y = 0; y < picture_.height(); ++y) {
      mix_rows(y);
      for (int64_t c = 0; c < picture_.channels(); ++c) mix_columns(c, row(c, y).data());
      if (picture_.colours) apply_colours(*picture_.colours, y);
      for (int c = 0; c < picture_.channels(); ++c)
        for (float& number : row(c, y)) number = picture_.levels.at(c, number);
    }
  }

 private:
  std::span<float> row(int64_t channel, int64_t y) const {
    return {out_ + (channel * picture_.height() + y) * picture_.width(),
            static_cast<size_t>(picture_.width())};
  }

  void mix_rows(int64_t y) {
    const int64_t channels = picture_.channels(), begin = columns_.begin();
    const int64_t used = std::max<int64_t>(0, columns_.end() - begin);
    if (part_.interleaved)
      return mix_run(y, 0, part_.width * channels, begin * channels, used * channels);
    for (int64_t c = 0; c < channels; ++c) mix_run(y, c, part_.width, begin, used);
  }
  // Of all rows in a plane, bytes `begin` and on, to the same place of the line.
  void mix_run(int64_t y, int64_t plane, int64_t stride, int64_t begin, int64_t size) {
    const uint8_t* in =
        sample_.pixels + (plane * part_.height + rows_.firsts()[y]) * stride + begin;
    float* const line = line_.data() + plane * stride + begin;
    for (int64_t k = 0; k < rows_.taps(); ++k, in += stride) {
      const float weight = rows_.weights(k)[y];
      if (k == 0)
        for (int64_t i = 0; i < size; ++i) line[i] = weight * in[i];
      else if (weight > 0)
        for (int64_t i = 0; i < size; ++i) line[i] += weight * in[i];
    }
  }

  void mix_columns(int64_t channel, float* out) const {
    const int stride = part_.interleaved ? int(picture_.channels()) : 1;
    const float* in = line_.data() + channel * (part_.interleaved ? 1 : part_.width);
    const int32_t* const firsts = columns_.firsts();
    const int width = int(picture_.width());
    std::fill_n(out, width, 0.f);
    for (int64_t k = 0; k < columns_.taps(); ++k, in += stride) {
      const float* const weights = columns_.weights(k);
      for (int x = 0; x < width; ++x) out[x] += weights[x] * in[firsts[x] * stride];
    }
  }

  void apply_colours(const Colours& colours, int64_t y) {
    const auto red = row(0, y), green = row(1, y), blue = row(2, y);
    for (size_t x = 0; x < red.size(); ++x) {
      const float r = red[x], g = green[x], b = blue[x];
      red[x] = colours.at(0, r, g, b);
      green[x] = colours.at(1, r, g, b);
      blue[x] = colours.at(2, r, g, b);
    }
  }

  const Picture& picture_;
  const Sample& sample_;
  const Part part_;
  const Filter rows_, columns_;
  std::vector<float> line_;
  float* const out_;
};

}  // namespace

// What needs no line in between: the numbers are those of Writer, in fewer steps.
static void write_levels(const Picture& picture, const uint8_t* pixels, float* out) {
  const int64_t plane = picture.height() * picture.width();
  for (int c = 0; c < picture.channels(); ++c, pixels += plane, out += plane)
    for (int64_t i = 0; i < plane; ++i) out[i] = picture.levels.at(c, pixels[i]);
}

static void write_hole(const Picture& picture, const Rectangle& hole, float* out) {
  for (int64_t c = 0; c < picture.channels(); ++c)
    for (int64_t y = hole.top; y < hole.top + hole.height; ++y)
      std::fill_n(out + (c * picture.height() + y) * picture.width() + hole.left, hole.width, 0.f);
}

void write_picture(const Picture& picture, const Sample& sample, float* out) {
  if (picture.levels_only() && !sample.part)
    write_levels(picture, sample.pixels, out);
  else
    Writer(picture, sample, out).write();
  if (picture.hole()) write_hole(picture, *picture.hole(), out);
}

}  // namespace bellows
