// packed: samples from shards (data/packed/shard.h), one read each.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>
#include "core/base/trace.h"
#include "core/base/words.h"
#include "core/config/visitor.h"
#include "data/images/image_file.h"
#include "data/packed/shard.h"

namespace bellows {

namespace {

// An open shard. Opening one checks all but the bytes of its records. Counter: data.file_opens.
class Shard {
 public:
  explicit Shard(const Path& path) : path(path), file_(path, Exit::data) {
    trace::count<"data.file_opens">();
    read_front();
    check_records();
  }
  // Reads to.size() bytes at `offset` of the file, at once. Thread-safe.
  void read(uint64_t offset, std::span<uint8_t> to) const {
    trace::count<"data.packed_reads">();
    file_.read(static_cast<int64_t>(offset), std::as_writable_bytes(to));
  }

  const Path path;
  ShardFront front;

 private:
  template <class... What> [[noreturn]] void refuse(const What&... what) const {
    fail(Exit::data, printable(path.native()), what...);
  }
  // Reads a part of the file that begins at `at`. Returns where it ends.
  template <class Part> int64_t take(int64_t at, Part& part) const {
    file_.read(at, std::as_writable_bytes(std::span(part)));
    return at + std::span(part).size_bytes();
  }
  // Compares all sizes with that of the file before it allocates memory for them.
  void read_front() {
    auto& [head, source, names, index] = front;
    const int64_t size = file_.size();
    if (size < int64_t{sizeof head})
      refuse(": ", size, " bytes are too few for a shard of packed samples");
    file_.read(0, std::as_writable_bytes(std::span(&head, 1)));
    if (std::memcmp(head.magic, ShardHead().magic, sizeof head.magic) != 0)
      refuse(": not a shard of packed samples: it begins with other bytes");
    if (head.version != kShardVersion)
      refuse(": of format version ", head.version, ", this program reads ", kShardVersion,
             "; pack it again with  trainer pack --config FILE --out FOLDER");
    uint64_t rest = static_cast<uint64_t>(size) - sizeof head;
    const auto takes = [&](uint64_t bytes) { return bytes <= rest && (rest -= bytes, true); };
    if (!takes(head.source_size) || !takes(head.names_size) ||
        head.records > rest / sizeof(ShardRecord))
      refuse(": truncated in its index, ", size, " bytes with ", head.records,
             " records; pack it again");
    source.resize(head.source_size);
    names.resize(head.names_size);
    index.resize(head.records);
    take(take(take(sizeof head, source), names), index);
    if (const uint32_t crc = front.checksum(); crc != head.checksum)
      refuse(
          fmt::format(": head or index is damaged: checksum {:08x}, it was written with {:08x}; "
                      "pack it again",
                      crc, head.checksum));
    check_head();
  }

  void check_head() const {
    const auto& [head, source, names, index] = front;
    const bool named = names.ends_with('\0') && std::ranges::count(names, '\0') == head.classes;
    bool usable = head.classes <= kMostClasses && head.channels >= 1 &&
                  head.channels <= kMaxChannels && head.last <= 1 && (named || names.empty()) &&
                  uint64_t{head.height} * head.width <= uint64_t(most_pixels());
    for (uint32_t c = 0; usable && c < head.channels; ++c)
      usable = std::isfinite(head.mean[c]) && std::isfinite(head.std[c]) && head.std[c] > 0;
    if (!usable) refuse(": byte 0: an invalid head");
  }

  void check_record(const ShardRecord& r) const {
    const ShardHead& head = front.head;
    if (r.label >= head.classes)
      fail(Exit::data, "label ", r.label, ", not one of 0 to ", int64_t{head.classes} - 1);
    if (r.form > Form::file) fail(Exit::data, "of unknown form ", static_cast<uint32_t>(r.form));
    if (r.form == Form::file) return;
    check_size("pixels", r.height, r.width);
    if (uint64_t{head.channels} * r.height * r.width != r.size)
      fail(Exit::data, r.size, " bytes are not ", head.channels, " x ", r.height, " x ", r.width);
  }
  // Records must be adjacent and end with the file.
  void check_records() const {
    const auto size = static_cast<uint64_t>(file_.size());
    uint64_t end = front.records_begin();
    for (size_t i = 0; i < front.index.size(); ++i) {
      const ShardRecord& r = front.index[i];
      try {
        check_record(r);
        if (r.offset != end) fail(Exit::data, "at byte ", r.offset, ", not ", end);
        end += r.size;
        if (end > size) fail(Exit::data, "truncated: the file has ", size, " bytes; pack it again");
      } catch (const Error& error) {
        refuse(", record ", i, " of ", front.index.size(), ": ", error.what());
      }
    }
    if (end != size) refuse(": goes on after its last record, at byte ", end, " of ", size);
  }

  InputFile file_;
};

struct PackedOptions {
  std::string folder = "datasets/packed";
};
void visit(Visitor& v, PackedOptions& o) {
  v("folder", o.folder, "folder of the shards; `trainer pack` writes them").resumable();
}

// True if two shards come from one packing.
bool alike(const ShardFront& a, const ShardFront& b) {
  constexpr size_t kInfo = offsetof(ShardHead, channels);
  const auto info = [](const ShardFront& front) {
    return std::as_bytes(std::span(&front.head, 1)).subspan(kInfo);
  };
  return std::ranges::equal(info(a), info(b)) && a.source == b.source && a.names == b.names;
}

void refuse_missing(const Path& path, bool first) {
  if (kind_of(path, Exit::data) != Kind::nothing) return;
  if (!first) fail(Exit::data, path.string(), ": missing: packing did not end, or a file was lost");
  fail(Exit::data, path.string(), ": no such shard; write  trainer pack --config FILE --out ",
       quoted(path.parent_path().string()));
}

// Class names become printable().
DatasetInfo info_in(const ShardFront& front) {
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

class Packed : public Dataset {
 public:
  // Opens all shards of the split. Throws Error(Exit::data) with the path of a shard that is
  // missing, damaged or from another packing.
  Packed(const PackedOptions& options, Split split) {
    do {
      const Path path = shard_path(options.folder, split, std::ssize(shards_));
      refuse_missing(path, shards_.empty());
      auto shard = std::make_unique<const Shard>(path);
      if (!shards_.empty() && !alike(shard->front, shards_.front()->front))
        fail(Exit::data, path.string(), ": written by another run of trainer pack than ",
             shards_.front()->path.string());
      if (shard->front.head.first != static_cast<uint64_t>(size_))
        fail(Exit::data, path.string(), ": begins with sample ", shard->front.head.first, ", not ",
             size_);
      firsts_.push_back(size_);
      size_ += std::ssize(shard->front.index);
      shards_.push_back(std::move(shard));
    } while (!shards_.back()->front.head.last);
    info_ = info_in(shards_.front()->front);
  }

  int64_t size() const override { return size_; }
  // Verifies the record's checksum on every call. Throws Error(Exit::data).
  Sample at_least(int64_t index, const ViewOf& wanted, Scratch& scratch) const override {
    const ShardRecord& r = record(index);
    if (r.form == Form::file) return decode_image(*encoded(index), scratch, wanted);
    scratch.resize(r.size);
    read(index, scratch);
    Sample sample{scratch.data(), {info_.input.shape[0], r.height, r.width}, r.label};
    if (r.form == Form::interleaved)
      sample.part = {.height = r.height, .width = r.width, .interleaved = true};
    return sample;
  }

  std::optional<EncodedSample> encoded(int64_t index) const override {
    const ShardRecord& r = record(index);
    if (r.form != Form::file) return {};
    EncodedSample sample{std::vector<uint8_t>(r.size), r.label};
    read(index, sample.file);
    return sample;
  }
  std::string origin(int64_t index) const override {
    const auto [shard, number] = place_of(index);
    return cat(printable(shard.path.native()), ", record ", number);
  }
  int64_t label(int64_t index) const override { return record(index).label; }

  bool fixed_pixels() const override {
    const auto fixed = [&](const ShardRecord& r) {
      return r.form == Form::planar && r.height == info_.input.shape[1] &&
             r.width == info_.input.shape[2];
    };
    return std::ranges::all_of(
        shards_, [&](const auto& shard) { return std::ranges::all_of(shard->front.index, fixed); });
  }

 private:
  // Returns the shard of a sample, and the index of its record there.
  std::pair<const Shard&, size_t> place_of(int64_t index) const {
    const size_t shard = std::ranges::upper_bound(firsts_, index) - firsts_.begin() - 1;
    return {*shards_[shard], static_cast<size_t>(index - firsts_[shard])};
  }
  const ShardRecord& record(int64_t index) const {
    const auto [shard, number] = place_of(index);
    return shard.front.index[number];
  }

  void read(int64_t index, std::span<uint8_t> to) const {
    const ShardRecord& r = record(index);
    place_of(index).first.read(r.offset, to);
    if (const uint32_t crc = crc32c(std::as_bytes(to)); crc != r.checksum)
      fail(Exit::data,
           fmt::format("damaged: checksum {:08x}, it was packed with {:08x}; pack the data "
                       "set again",
                       crc, r.checksum));
  }

  std::vector<std::unique_ptr<const Shard>> shards_;
  std::vector<int64_t> firsts_;  // first sample of each shard
  int64_t size_ = 0;
};

DatasetPtr make_packed(const PackedOptions& o, const DatasetContext& c) {
  return std::make_shared<Packed>(o, c.split);
}

}  // namespace

static const AddDataset packed_entry("packed", "shards that `trainer pack` has written",
                                     &make_packed);

}  // namespace bellows
