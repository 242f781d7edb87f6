#include "data/packed/shard.h"
#include <fmt/format.h>
#include <cmath>
#include <cstring>
#include <sstream>
#include "core/base/crc32c.h"
#include "core/base/trace.h"
#include "data/images/image_file.h"

namespace bellows {

Path shard_path(const Path& folder, Split split, int64_t number) {
  return folder / fmt::format("{}-{:05}.shard", split == Split::train ? "train" : "test", number);
}

ShardHeader header_of(const DatasetInfo& info, const std::string& source) {
  INVARIANT(info.input.shape.rank() == 3 && info.input.shape[0] <= kMaxChannels, "samples of ",
            info.input.shape);
  ShardHeader front{{}, source, {}};
  ShardHead& head = front.head;
  head.channels = static_cast<uint32_t>(info.input.shape[0]);
  head.height = static_cast<uint32_t>(info.input.shape[1]);
  head.width = static_cast<uint32_t>(info.input.shape[2]);
  head.classes = static_cast<uint32_t>(info.classes);
  std::ranges::copy(info.mean, head.mean);
  std::ranges::copy(info.std, head.std);
  for (const std::string& name : info.names) front.names += name + '\0';
  head.source_size = static_cast<uint32_t>(source.size());
  head.names_size = front.names.size();
  return front;
}

DatasetInfo info_of(const ShardHeader& front) {
  const ShardHead& head = front.head;
  std::vector<std::string> names;
  std::istringstream all(front.names);
  for (std::string name; std::getline(all, name, '\0');) names.push_back(printable(name));
  return {.input = {DType::u8, {head.channels, head.height, head.width}},
          .classes = head.classes,
          .names = names,
          .mean = {head.mean, head.mean + head.channels},
          .std = {head.std, head.std + head.channels}};
}

static uint32_t checksum_of(const ShardHeader& front, Bytes index) {
  ShardHead head = front.head;
  head.checksum = 0;
  const uint32_t of_head = crc32c(std::as_bytes(std::span(&head, 1)));
  return crc32c(index, crc32c(bytes_of(front.names), crc32c(bytes_of(front.source), of_head)));
}
static uint64_t index_begin(const ShardHead& head) {
  return sizeof head + head.source_size + head.names_size;
}

// ---- reading

Shard::Shard(const Path& path) : path_(path), file_(path, Exit::data) {
  trace::count<"data.file_opens">();
  read_front();
  check_records();
}

void Shard::read(uint64_t offset, std::span<uint8_t> to) const {
  trace::count<"data.packed_reads">();
  file_.read(static_cast<int64_t>(offset), std::as_writable_bytes(to));
}

// Compares all sizes with that of the file before it allocates memory for them.
void Shard::read_front() {
  const std::string where = printable(path_.native());
  const auto refuse = [&](const auto&... what) { fail(Exit::data, where, ": ", what...); };
  const ShardHead ours;
  auto& [head, source, names] = front_;
  const int64_t size = file_.size();
  if (size < int64_t{sizeof head}) refuse(size, " bytes are too few for a shard of packed samples");
  file_.read(0, std::as_writable_bytes(std::span(&head, 1)));
  if (std::memcmp(head.magic, ours.magic, sizeof ours.magic) != 0)
    refuse("not a shard of packed samples: it begins with other bytes");
  if (head.version != kShardVersion)
    refuse("of format version ", head.version, ", this program reads ", kShardVersion,
           "; pack it again with  trainer pack --config FILE --out FOLDER");
  uint64_t rest = static_cast<uint64_t>(size) - sizeof head;
  const auto takes = [&](uint64_t bytes) { return bytes <= rest && (rest -= bytes, true); };
  if (!takes(head.source_size) || !takes(head.names_size) ||
      head.records > rest / sizeof(ShardRecord))
    refuse("truncated in its index, ", size, " bytes with ", head.records,
           " records; pack it again");
  source.resize(head.source_size);
  names.resize(head.names_size);
  records_.resize(head.records);
  file_.read(sizeof head, std::as_writable_bytes(std::span(source)));
  file_.read(int64_t{sizeof head} + head.source_size, std::as_writable_bytes(std::span(names)));
  const auto index = std::as_writable_bytes(std::span(records_));
  file_.read(static_cast<int64_t>(index_begin(head)), index);
  if (const uint32_t crc = checksum_of(front_, index); crc != head.checksum)
    refuse(
        fmt::format("head or index is damaged: checksum {:08x}, it was written with {:08x}; "
                    "pack it again",
                    crc, head.checksum));
  const bool named = names.ends_with('\0') && std::ranges::count(names, '\0') == head.classes;
  bool usable = head.classes <= kMostClasses && head.channels >= 1 &&
                head.channels <= kMaxChannels && head.last <= 1 && (named || names.empty()) &&
                uint64_t{head.height} * head.width <= uint64_t(most_pixels());
  for (uint32_t c = 0; usable && c < head.channels; ++c)
    usable = std::isfinite(head.mean[c]) && std::isfinite(head.std[c]) && head.std[c] > 0;
  if (!usable) refuse("byte 0: an invalid head");
}

static void check_record(const ShardRecord& r, const ShardHead& head) {
  if (r.label >= head.classes)
    fail(Exit::data, "label ", r.label, ", not one of 0 to ", int64_t{head.classes} - 1);
  if (r.form > Form::file) fail(Exit::data, "of unknown form ", static_cast<uint32_t>(r.form));
  if (r.form == Form::file) return;
  check_size("pixels", r.height, r.width);
  if (uint64_t{head.channels} * r.height * r.width != r.size)
    fail(Exit::data, r.size, " bytes are not ", head.channels, " x ", r.height, " x ", r.width);
}

// Records must be adjacent and end with the file.
void Shard::check_records() const {
  const std::string where = printable(path_.native());
  uint64_t end = index_begin(head()) + records_.size() * sizeof(ShardRecord);
  for (size_t i = 0; i < records_.size(); ++i) {
    const ShardRecord& r = records_[i];
    try {
      check_record(r, head());
      if (r.offset != end) fail(Exit::data, "at byte ", r.offset, ", not ", end);
      end += r.size;
      if (end > static_cast<uint64_t>(file_.size()))
        fail(Exit::data, "truncated: the file has ", file_.size(), " bytes; pack it again");
    } catch (const Error& error) {
      fail(error.exit, where, ", record ", i, " of ", records_.size(), ": ", error.what());
    }
  }
  if (end != static_cast<uint64_t>(file_.size()))
    fail(Exit::data, where, ": goes on after its last record, at byte ", end, " of ", file_.size());
}

// ---- writing

int64_t write_shard(const Path& path, ShardHeader front, std::span<const PackedRecord> records) {
  ShardHead& head = front.head;
  head.records = records.size();
  uint64_t end = index_begin(head) + records.size() * sizeof(ShardRecord);
  std::vector<ShardRecord> index;
  std::vector<Bytes> pieces(4);
  for (const PackedRecord& record : records) {
    const Bytes bytes = pieces.emplace_back(std::as_bytes(std::span(record.bytes)));
    ShardRecord& entry = index.emplace_back(record.entry);
    entry.offset = end;
    entry.size = static_cast<uint32_t>(bytes.size());
    entry.checksum = crc32c(bytes);
    end += bytes.size();
  }
  pieces[1] = bytes_of(front.source);
  pieces[2] = bytes_of(front.names);
  pieces[3] = std::as_bytes(std::span(index));
  head.checksum = checksum_of(front, pieces[3]);
  pieces[0] = std::as_bytes(std::span(&head, 1));
  write_file(path, pieces);
  return static_cast<int64_t>(end);
}

}  // namespace bellows
