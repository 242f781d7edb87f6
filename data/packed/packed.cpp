#include "data/packed/packed.h"
#include <fmt/format.h>
#include <algorithm>
#include "core/base/crc32c.h"
#include "core/base/words.h"
#include "core/config/visitor.h"
#include "data/images/image_file.h"

namespace bellows {

void visit(Visitor& v, PackedOptions& o) {
  v("folder", o.folder, "folder of the shards; `trainer pack` writes them");
}

// ---- opening

static bool alike(const Shard& a, const Shard& b) {
  constexpr size_t kInfo = offsetof(ShardHead, channels);
  const auto info = [](const Shard& s) {
    return std::as_bytes(std::span(&s.head(), 1)).subspan(kInfo);
  };
  return std::ranges::equal(info(a), info(b)) && a.front().source == b.front().source &&
         a.front().names == b.front().names;
}

static void refuse_missing(const Path& path, size_t number) {
  if (kind_of(path, Exit::data) != Kind::nothing) return;
  if (number) fail(Exit::data, path.string(), ": missing: packing did not end, or a file was lost");
  fail(Exit::data, path.string(), ": no such shard; write  trainer pack --config FILE --out ",
       quoted(path.parent_path().string()));
}

Packed::Packed(const PackedOptions& options, Split split) {
  do {
    const Path path = shard_path(options.folder, split, std::ssize(shards_));
    refuse_missing(path, shards_.size());
    auto shard = std::make_unique<const Shard>(path);
    if (!shards_.empty() && !alike(*shard, *shards_.front()))
      fail(Exit::data, path.string(), ": written by another run of trainer pack than ",
           shards_.front()->path().string());
    if (shard->head().first != static_cast<uint64_t>(size_))
      fail(Exit::data, path.string(), ": begins with sample ", shard->head().first, ", not ",
           size_);
    firsts_.push_back(size_);
    size_ += std::ssize(shard->records());
    shards_.push_back(std::move(shard));
  } while (!shards_.back()->head().last);
  info_ = info_of(shards_.front()->front());
}

bool Packed::fixed_pixels() const {
  const auto fixed = [&](const ShardRecord& r) {
    return r.form == Form::planar && r.height == info_.input.shape[1] &&
           r.width == info_.input.shape[2];
  };
  return std::ranges::all_of(
      shards_, [&](const auto& shard) { return std::ranges::all_of(shard->records(), fixed); });
}

// ---- reading

Packed::Place Packed::place_of(int64_t index) const {
  const size_t shard = std::ranges::upper_bound(firsts_, index) - firsts_.begin() - 1;
  return {*shards_[shard], static_cast<size_t>(index - firsts_[shard])};
}

std::string Packed::origin(int64_t index) const {
  const Place place = place_of(index);
  return cat(printable(place.shard.path().native()), ", record ", place.number);
}

void Packed::read(int64_t index, std::span<uint8_t> to) const {
  const Place place = place_of(index);
  const ShardRecord& record = place.record();
  place.shard.read(record.offset, to);
  if (const uint32_t crc = crc32c(std::as_bytes(to)); crc != record.checksum)
    fail(Exit::data,
         fmt::format("damaged: checksum {:08x}, it was packed with {:08x}; pack the data "
                     "set again",
                     crc, record.checksum));
}

Sample Packed::at_least(int64_t index, const ViewOf& wanted, Scratch& scratch) const {
  const ShardRecord& r = place_of(index).record();
  if (r.form == Form::file) return decode_image(*Packed::encoded(index), scratch, wanted);
  scratch.resize(r.size);
  read(index, scratch);
  Sample sample{scratch.data(), {info_.input.shape[0], r.height, r.width}, r.label};
  if (r.form == Form::interleaved)
    sample.part = {.height = r.height, .width = r.width, .interleaved = true};
  return sample;
}

std::optional<EncodedSample> Packed::encoded(int64_t index) const {
  const ShardRecord& r = place_of(index).record();
  if (r.form != Form::file) return {};
  EncodedSample sample{std::vector<uint8_t>(r.size), r.label};
  read(index, sample.file);
  return sample;
}

static DatasetPtr make_packed(const PackedOptions& o, const DatasetContext& c) {
  return std::make_shared<Packed>(o, c.split);
}

static const AddEntry<MakeDataset> packed_entry("packed", "shards that `trainer pack` has written",
                                                &make_packed);

}  // namespace bellows
