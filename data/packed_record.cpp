#include "data/encode_jpeg.h"
#include "data/pack.h"
#include "data/write_picture.h"

namespace bellows {

static PackedRecord as_file(EncodedSample file) {
  return {{.label = static_cast<uint32_t>(file.label), .form = Form::file}, std::move(file.file)};
}

static PackedRecord as_pixels(std::vector<uint8_t> bytes, const Shape& shape, int64_t label,
                              Form form) {
  return {{.height = static_cast<uint32_t>(shape[1]),
           .width = static_cast<uint32_t>(shape[2]),
           .label = static_cast<uint32_t>(label),
           .form = form},
          std::move(bytes)};
}

// As the data set gives them: whoever reads them again gets the same.
static PackedRecord as_they_are(const Sample& sample) {
  const bool interleaved = sample.part && sample.part->interleaved;
  return as_pixels({sample.pixels, sample.pixels + sample.shape.numel()}, sample.shape,
                   sample.label, interleaved ? Form::interleaved : Form::planar);
}

// Its shorter side made that long; 0: as it is. (H, W, C) bytes; the new shape goes to `shape`.
static std::vector<uint8_t> redrawn(const Sample& sample, int64_t side, Shape& shape) {
  Picture picture(sample.shape);
  if (side) picture.resize_short_side(side);
  std::fill_n(picture.levels.scale, kMaxChannels, 1.f);
  shape = picture.shape();
  const int64_t channels = shape[0], plane = shape[1] * shape[2];
  std::vector<float> planes(shape.numel());
  write_picture(picture, sample, planes.data());
  std::vector<uint8_t> bytes(planes.size());
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t i = 0; i < plane; ++i)
      bytes[channels * i + c] = static_cast<uint8_t>(std::lround(planes[c * plane + i]));
  return bytes;
}

PackedRecord packed_record(const Dataset& dataset, int64_t index, const PackOptions& o) {
  std::optional<EncodedSample> file;
  if (o.encoding == Encoding::keep) file = dataset.encoded(index);
  if (file && !o.side) return as_file(std::move(*file));
  Scratch scratch;
  const Sample sample = dataset.at(index, scratch);
  const bool shrinks = o.side && std::min(sample.shape[1], sample.shape[2]) > o.side;
  if (file && !shrinks) return as_file(std::move(*file));
  const bool jpeg = file || o.encoding == Encoding::jpeg;
  if (!jpeg && !shrinks) return as_they_are(sample);
  Shape shape;
  std::vector<uint8_t> bytes = redrawn(sample, shrinks ? o.side : 0, shape);
  if (!jpeg) return as_pixels(std::move(bytes), shape, sample.label, Form::interleaved);
  return as_file(
      {encode_jpeg(bytes.data(), shape[1], shape[2], static_cast<int>(o.quality)), sample.label});
}

}  // namespace bellows
