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
#include "core/base/file.h"
#include "data/images/colors.h"
#include "data/sets/dataset.h"

namespace bellows {

inline constexpr uint32_t kShardVersion = 2;      // 1 had no names
inline constexpr int64_t kMostClasses = 1 << 20;  // a model has an output for each

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

// The parts of a shard before the index.
struct ShardHeader {
  ShardHead head;
  std::string source, names;
};
// Returns the ShardHeader of a data set, with no records yet.
ShardHeader header_of(const DatasetInfo& info, const std::string& source);
DatasetInfo info_of(const ShardHeader& front);  // the inverse; class names become printable()

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

// Returns <folder>/train-00000.shard, <folder>/test-00000.shard and so on.
Path shard_path(const Path& folder, Split split, int64_t number);

class Shard {
 public:
  // Opens a shard and checks all but the bytes of its records. Throws Error(Exit::data) with the
  // path if the file is no shard, has another version, is damaged or truncated before its records,
  // or is not as long as its index says. Counter: data.file_opens.
  explicit Shard(const Path& path);
  const Path& path() const { return path_; }
  const ShardHeader& front() const { return front_; }
  const ShardHead& head() const { return front_.head; }
  std::span<const ShardRecord> records() const { return records_; }
  // Reads to.size() bytes at `offset` of the file, at once. Thread-safe. Counter:
  // data.packed_reads.
  void read(uint64_t offset, std::span<uint8_t> to) const;

 private:
  void read_front();
  void check_records() const;

  Path path_;
  InputFile file_;
  ShardHeader front_;
  std::vector<ShardRecord> records_;
};

// A record to be written; write_shard() sets its offset, size and checksum.
struct PackedRecord {
  ShardRecord entry;
  std::vector<uint8_t> bytes;
};

// Completes head and index and writes the shard durably, as write_file() of core/base/file.h does.
// Returns the size of the file in bytes.
int64_t write_shard(const Path& path, ShardHeader front, std::span<const PackedRecord> records);

}  // namespace bellows
