#include "data/images/encode_jpeg.h"
#include "data/images/write_image.h"
#include "data/packed/pack.h"

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

// Keeps the data set's own bytes and their order, so that reading returns the same sample.
static PackedRecord as_they_are(const Sample& sample) {
  const bool interleaved = sample.part && sample.part->interleaved;
  return as_pixels({sample.pixels, sample.pixels + sample.shape.numel()}, sample.shape,
                   sample.label, interleaved ? Form::interleaved : Form::planar);
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
  ImagePlan picture(sample.shape);
  if (shrinks) picture.resize_short_side(o.side);
  std::vector<uint8_t> bytes = interleaved_bytes(picture, sample);
  if (!jpeg) return as_pixels(std::move(bytes), picture.shape(), sample.label, Form::interleaved);
  return as_file(
      {encode_jpeg(bytes.data(), picture.height(), picture.width(), static_cast<int>(o.quality)),
       sample.label});
}

}  // namespace bellows
