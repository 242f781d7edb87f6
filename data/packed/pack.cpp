#include "core/base/trace.h"
#include "core/base/words.h"
#include "core/device/parallel.h"
#include "data/images/image_file.h"
#include "data/images/image_plan.h"
#include "data/packed/shard.h"
#include "data/sets/damaged.h"

namespace bellows {

namespace {

struct PackedRecord {
  ShardRecord entry;
  std::vector<uint8_t> bytes;
};

// Collects records into shards. Writes a full shard only when the next record arrives, because the
// last shard has to be marked as the last.
class ShardWriter {
 public:
  ShardWriter(const Path& folder, Split split, const DatasetInfo& info, const std::string& source,
              int64_t shard_bytes)
      : folder_(folder), split_(split), front_{.source = source}, most_(shard_bytes) {
    const Shape& shape = info.input.shape;
    INVARIANT(shape.rank() == 3 && shape[0] <= kMaxChannels, "samples of ", shape);
    ShardHead& head = front_.head;
    head.channels = static_cast<uint32_t>(shape[0]);
    head.height = static_cast<uint32_t>(shape[1]);
    head.width = static_cast<uint32_t>(shape[2]);
    head.classes = static_cast<uint32_t>(info.classes);
    std::ranges::copy(info.mean, head.mean);
    std::ranges::copy(info.std, head.std);
    for (const std::string& name : info.names) front_.names += name + '\0';
    head.source_size = static_cast<uint32_t>(source.size());
    head.names_size = front_.names.size();
  }
  void add(PackedRecord record) {
    if (waiting_ >= most_) flush();
    waiting_ += std::ssize(record.bytes);
    records_.push_back(std::move(record));
  }
  // Writes the last shard, and removes the further shards of an earlier packing of the split.
  void end() {
    front_.head.last = 1;
    flush();
    std::error_code error;  // ignored, because readers stop at the last shard
    for (int64_t n = written.shards;
         std::filesystem::remove(shard_path(folder_, split_, n), error);)
      ++n;
  }
  PackedSplit written;

 private:
  // Completes head and index, and writes the shard durably.
  void flush() {
    ShardHead& head = front_.head;
    head.records = records_.size();
    front_.index.resize(records_.size());
    uint64_t end = front_.records_begin();
    std::vector<Bytes> pieces(4);
    for (size_t i = 0; i < records_.size(); ++i) {
      const Bytes bytes = pieces.emplace_back(std::as_bytes(std::span(records_[i].bytes)));
      ShardRecord& entry = front_.index[i] = records_[i].entry;
      entry.offset = std::exchange(end, end + bytes.size());
      entry.size = static_cast<uint32_t>(bytes.size());
      entry.checksum = crc32c(bytes);
    }
    head.checksum = front_.checksum();
    pieces[0] = std::as_bytes(std::span(&head, 1));
    pieces[1] = bytes_of(front_.source);
    pieces[2] = bytes_of(front_.names);
    pieces[3] = std::as_bytes(std::span(front_.index));
    write_file(shard_path(folder_, split_, written.shards), pieces);
    ++written.shards;
    written.bytes += static_cast<int64_t>(end);
    written.samples += std::ssize(records_);
    head.first = written.samples;
    records_.clear();
    waiting_ = 0;
  }

  Path folder_;
  Split split_;
  ShardFront front_;
  int64_t most_, waiting_ = 0;  // bytes
  std::vector<PackedRecord> records_;
};

void check_options(const DatasetInfo& info, const PackOptions& o) {
  CHECK(info.images(), "pack is for images; ", info.unit, " are in memory from the start");
  CHECK(info.classes <= kMostClasses, info.classes, " classes; up to ", kMostClasses,
        " can be packed");
  CHECK(o.encoding != Encoding::jpeg || info.input.shape[0] == 3,
        "encoding jpeg is for images of 3 channels, these have ", info.input.shape[0],
        "; write  --encoding raw");
  CHECK(o.side == 0 || info.input.shape[1] == 0, "side ", o.side,
        " is for images that differ in size, these are all ", info.input.shape[1], " x ",
        info.input.shape[2]);
}

PackedRecord as_file(EncodedSample file) {
  return {{.label = static_cast<uint32_t>(file.label), .form = Form::file}, std::move(file.file)};
}

PackedRecord as_pixels(std::vector<uint8_t> bytes, const Shape& shape, int64_t label, Form form) {
  return {{.height = static_cast<uint32_t>(shape[1]),
           .width = static_cast<uint32_t>(shape[2]),
           .label = static_cast<uint32_t>(label),
           .form = form},
          std::move(bytes)};
}

// Returns the record of one sample.
PackedRecord packed_record(const Dataset& dataset, int64_t index, const PackOptions& o) {
  std::optional<EncodedSample> file;
  if (o.encoding == Encoding::keep) file = dataset.encoded(index);
  if (file && !o.side) return as_file(std::move(*file));
  Scratch scratch;
  const Sample sample = dataset.at(index, scratch);
  const bool shrinks = o.side && std::min(sample.shape[1], sample.shape[2]) > o.side;
  if (file && !shrinks) return as_file(std::move(*file));
  const bool jpeg = file || o.encoding == Encoding::jpeg;
  if (!jpeg && !shrinks)  // keeps the data set's own bytes and their order
    return as_pixels({sample.pixels, sample.pixels + sample.shape.numel()}, sample.shape,
                     sample.label,
                     sample.part && sample.part->interleaved ? Form::interleaved : Form::planar);
  ImagePlan image(sample.shape);
  if (shrinks) image.resize_short_side(o.side);
  std::vector<uint8_t> bytes = interleaved_bytes(image, sample);
  if (!jpeg) return as_pixels(std::move(bytes), image.shape(), sample.label, Form::interleaved);
  const bool png = file && is_lossless(file->file);  // a lossless file stays lossless
  return as_file(
      {png ? encode_png(bytes.data(), image.height(), image.width())
           : encode_jpeg(bytes.data(), image.height(), image.width(), static_cast<int>(o.quality)),
       sample.label});
}

// Packs samples in parallel.
std::vector<PackedRecord> pack_some(const Dataset& dataset, int64_t first, int64_t count,
                                    const PackOptions& options) {
  std::vector<PackedRecord> packed(count);
  parallel_for(count, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      at_sample(dataset, first + i, {},
                [&] { packed[i] = packed_record(dataset, first + i, options); });
  });
  return packed;
}

}  // namespace

std::string text_of(const PackedSplit& s) {
  return fmt::format("{}, {}, {:.2f} MB, {:.2f} s", count_of(s.samples, "sample"),
                     count_of(s.shards, "shard"), static_cast<double>(s.bytes) / 1e6, s.seconds);
}

PackedSplit pack(const Dataset& dataset, Split split, const std::string& source, const Path& folder,
                 const PackOptions& options) {
  constexpr int64_t kTogether = 64;
  const int64_t begin = trace::now_ns();
  check_options(dataset.info(), options);
  make_folders(folder);
  ShardWriter writer(folder, split, dataset.info(), source, options.shard_bytes);
  for (int64_t first = 0; first < dataset.size(); first += kTogether)
    for (PackedRecord& record :
         pack_some(dataset, first, std::min(kTogether, dataset.size() - first), options))
      writer.add(std::move(record));
  writer.end();
  writer.written.seconds = static_cast<double>(trace::now_ns() - begin) * 1e-9;
  return writer.written;
}

}  // namespace bellows
