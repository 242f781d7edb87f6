// A shard: a file of packed samples, each of which is one read. Little-endian, without gaps:
//
//   head      96 bytes: ShardHead
//   source    head.source_size bytes of text: what was packed, and how
//   names     head.names_size bytes: of the classes, each with a 0 behind it
//   index     32 bytes for each record: ShardRecord
//   records   their bytes, in the order of the index, to the end of the file
//
// head.checksum covers head (with 0 in its own place), source, names and index; each record has one
// of its own in the index. A split is the shards <split>-00000.shard, <split>-00001.shard and so
// on, up to the one that says it is the last.
#pragma once
#include "core/base/file.h"
#include "data/images/levels.h"
#include "data/sets/dataset.h"

namespace bellows {

inline constexpr uint32_t kShardVersion = 2;      // 1 had no names
inline constexpr int64_t kMostClasses = 1 << 20;  // a model has an output for each

struct ShardHead {
  char magic[8] = {'\x89', 'B', 'S', 'H', 'A', 'R', 'D', '\n'};
  uint32_t version = kShardVersion;
  uint32_t checksum = 0;  // CRC-32C, as are all of them
  uint64_t records = 0;
  uint64_t first = 0;  // sample of the split that the first record is
  uint32_t last = 0;   // 1: no shard follows
  uint32_t source_size = 0;
  uint64_t names_size = 0;
  uint32_t channels = 0, height = 0, width = 0;  // of a sample; sides that differ are 0
  uint32_t classes = 0;
  float mean[kMaxChannels] = {}, std[kMaxChannels] = {};  // DatasetInfo's
};
static_assert(sizeof(ShardHead) == 96);

// All that stands in front of the index.
struct ShardFront {
  ShardHead head;
  std::string source, names;
};
// Of a data set, as yet without records.
ShardFront front_of(const DatasetInfo& info, const std::string& source);
DatasetInfo info_of(const ShardFront& front);

enum class Form : uint32_t {
  planar,       // bytes (C, H, W)
  interleaved,  // bytes (H, W, C)
  file,         // JPEG or PNG
  reason,       // no sample, but text: why it could not be read
};
inline constexpr uint32_t kMostReasonBytes = 1 << 16;

struct ShardRecord {
  uint64_t offset = 0;  // from the start of the file
  uint32_t size = 0;    // bytes
  uint32_t checksum = 0;
  uint32_t height = 0, width = 0;  // 0: the file says
  uint32_t label = 0;
  Form form = Form::planar;
};
static_assert(sizeof(ShardRecord) == 32);

Path shard_path(const Path& folder, Split split, int64_t number);

class Shard {
 public:
  // Counted as data.file_opens. Refuses, with Error(Exit::data) and the path, what is no shard, of
  // another version, damaged or cut off in what stands in front of the records, or not as long as
  // its index says.
  explicit Shard(const Path& path);
  const Path& path() const { return path_; }
  const ShardFront& front() const { return front_; }
  const ShardHead& head() const { return front_.head; }
  std::span<const ShardRecord> records() const { return records_; }
  // One read, counted as data.packed_reads. Thread-safe.
  void read(uint64_t offset, std::span<uint8_t> to) const;

 private:
  void read_front();
  void check_records() const;

  Path path_;
  InputFile file_;
  ShardFront front_;
  std::vector<ShardRecord> records_;
};

// A record before it is written: offset and checksum are still to come.
struct PackedRecord {
  ShardRecord entry;
  std::vector<uint8_t> bytes;
};

// Fills in what is still missing, and writes durably. Returns the bytes of the file.
int64_t write_shard(const Path& path, ShardFront front, std::span<const PackedRecord> records);

}  // namespace bellows
