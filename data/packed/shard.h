// Shard: a file of packed samples; each sample is one read. Little-endian, without gaps:
//
//   head      96 bytes: ShardHead
//   source    head.source_size bytes of text: the data set that was packed, and how
//   names     head.names_size bytes: names of the classes, each followed by a 0 byte
//   index     32 bytes per record: ShardRecord
//   records   their bytes, in the order of the index, to the end of the file
//
// head.checksum covers head (with 0 in its own place), source, names and index. The checksum of
// each record is in the index. A split consists of <split>-00000.shard, <split>-00001.shard and so
// on, up to the one that is marked as the last.
#pragma once
#include <fmt/format.h>
#include "core/base/crc32c.h"
#include "core/base/file.h"
#include "data/images/colors.h"
#include "data/sets/dataset.h"

namespace bellows {

inline constexpr uint32_t kShardVersion = 2;      // version 1 had no class names
inline constexpr int64_t kMostClasses = 1 << 20;  // limit, because a model has an output per class

struct ShardHead {
  char magic[8] = {'\x89', 'B', 'S', 'H', 'A', 'R', 'D', '\n'};
  uint32_t version = kShardVersion;
  uint32_t checksum = 0;  // CRC-32C, like that of records
  uint64_t records = 0;
  uint64_t first = 0;  // index in the split of the first record's sample
  uint32_t last = 0;   // 1: no shard follows
  uint32_t source_size = 0;
  uint64_t names_size = 0;
  uint32_t channels = 0, height = 0, width = 0;  // shape of a sample; 0: the sides differ
  uint32_t classes = 0;
  float mean[kMaxChannels] = {}, std[kMaxChannels] = {};  // DatasetInfo's
};
static_assert(sizeof(ShardHead) == 96);

enum class Form : uint32_t {
  planar,       // bytes (C, H, W)
  interleaved,  // bytes (H, W, C)
  file,         // an image file
};

struct ShardRecord {
  uint64_t offset = 0;  // from the start of the file
  uint32_t size = 0;    // bytes
  uint32_t checksum = 0;
  uint32_t height = 0, width = 0;  // size of raw pixels; 0: see the encoded file
  uint32_t label = 0;
  Form form = Form::planar;
};
static_assert(sizeof(ShardRecord) == 32);

// The parts of a shard before the records.
struct ShardFront {
  ShardHead head = {};
  std::string source = {}, names = {};
  std::vector<ShardRecord> index = {};

  uint64_t records_begin() const {
    return sizeof head + source.size() + names.size() + std::span(index).size_bytes();
  }
  uint32_t checksum() const {
    ShardHead zeroed = head;
    zeroed.checksum = 0;
    uint32_t crc = crc32c(std::as_bytes(std::span(&zeroed, 1)));
    for (const Bytes part : {bytes_of(source), bytes_of(names), std::as_bytes(std::span(index))})
      crc = crc32c(part, crc);
    return crc;
  }
};

// Returns <folder>/train-00000.shard, <folder>/test-00000.shard and so on.
inline Path shard_path(const Path& folder, Split split, int64_t number) {
  return folder / fmt::format("{}-{:05}.shard", split == Split::train ? "train" : "test", number);
}

// ---- packing

enum class Encoding {
  // Keeps files, and samples without a file as raw pixels: the same samples, bit for bit. Decodes
  // only files that `side` may shrink, so damage inside the others goes unnoticed.
  keep,
  raw,   // pixels
  jpeg,  // encoded again, with some loss; images of three channels only
};

struct PackOptions {
  Encoding encoding = Encoding::keep;
  // Larger images are shrunk to this shorter side; 0: never. With `keep`, a PNG file stays one.
  int64_t side = 0;
  int64_t quality = 90;                      // of JPEGs that are encoded here, 1 to 100
  int64_t shard_bytes = int64_t{256} << 20;  // a shard with this many is full
};

// Totals of a packed split.
struct PackedSplit {
  int64_t samples = 0, shards = 0, bytes = 0;
  double seconds = 0;
};
std::string text_of(const PackedSplit& split);  // "20 samples, 1 shard, 0.06 MB, 0.01 s"

// Writes the shards of a split into `folder`, which is created if necessary; they replace those of
// an earlier packing. Decodes images in parallel. `source` is a description of the data set that
// the shards keep. Throws Error that names the sample and its origin; Error(Exit::usage) if the
// options do not fit the data set. Compute thread only.
PackedSplit pack(const Dataset& dataset, Split split, const std::string& source, const Path& folder,
                 const PackOptions& options = {});

}  // namespace bellows
