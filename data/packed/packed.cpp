#include "data/packed/packed.h"
#include <fmt/format.h>
#include <algorithm>
#include <cstring>
#include "core/base/crc32c.h"
#include "core/config/visitor.h"
#include "data/images/image_file.h"

namespace bellows {

void visit(Visitor& v, PackedOptions& o) {
  v("folder", o.folder, "folder of the shards; `trainer pack` writes them");
  v("cache_mb", o.cache_mb, "pages kept in memory; 0: the system's own cache has to do",
    {.min = 0, .max = 1e7});
  v("page_kb", o.page_kb, "read at once where there is a cache, kept together by quasi_random",
    {.min = 1, .max = 1e6});
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
       path.parent_path().string());
}

void Packed::open_all(const Path& folder, Split split) {
  do {
    const Path path = shard_path(folder, split, std::ssize(shards_));
    refuse_missing(path, shards_.size());
    auto shard = std::make_unique<const Shard>(path);
    if (!shards_.empty() && !alike(*shard, *shards_.front()))
      fail(Exit::data, path.string(), ": of another packing than ",
           shards_.front()->path().string());
    if (shard->head().first != static_cast<uint64_t>(size_))
      fail(Exit::data, path.string(), ": begins with sample ", shard->head().first, ", not ",
           size_);
    firsts_.push_back(size_);
    size_ += std::ssize(shard->records());
    shards_.push_back(std::move(shard));
  } while (!shards_.back()->head().last);
}

void Packed::cut_pages(int64_t bytes) {
  for (size_t s = 0; s < shards_.size(); ++s) {
    const auto records = shards_[s]->records();
    uint64_t begin = 0;  // of the page, as an offset in the file
    for (size_t i = 0; i < records.size(); ++i) {
      if (i > 0 && records[i].offset + records[i].size - begin <= uint64_t(bytes)) continue;
      begin = records[i].offset;
      pages_.push_back(firsts_[s] + static_cast<int64_t>(i));
    }
  }
}

// True if the cache can hold all samples, and all are planar pixels of the data set's shape, as a
// device needs them.
bool Packed::fits(int64_t cache_bytes) const {
  for (const auto& shard : shards_)
    for (const ShardRecord& r : shard->records()) {
      cache_bytes -= r.size;
      if (r.form != Form::planar || r.height != info_.sample[1] || r.width != info_.sample[2])
        return false;
    }
  return cache_bytes >= 0;
}

Packed::Packed(const PackedOptions& options, Split split) {
  open_all(options.folder, split);
  info_ = info_of(shards_.front()->front());
  cut_pages(options.page_kb << 10);
  const int64_t cache = options.cache_mb << 20;
  if (cache) cache_ = std::make_unique<PageCache>(cache);
  in_memory_ = fits(cache);
}

// ---- reading

// Returns the index of the last element of `firsts` that is not above `index`.
static size_t last_begun(const std::vector<int64_t>& firsts, int64_t index) {
  return std::ranges::upper_bound(firsts, index) - firsts.begin() - 1;
}

Packed::Place Packed::place_of(int64_t index) const {
  const size_t shard = last_begun(firsts_, index);
  return {*shards_[shard], static_cast<size_t>(index - firsts_[shard])};
}

std::string Packed::origin(int64_t index) const {
  const Place place = place_of(index);
  return cat(printable(place.shard.path().native()), ", record ", place.number);
}

void Packed::copy(int64_t index, std::span<uint8_t> to) const {
  const Place place = place_of(index);
  const ShardRecord& record = place.record();
  if (!cache_) return place.shard.read(record.offset, to);
  const size_t page = last_begun(pages_, index);
  const int64_t end = page + 1 < pages_.size() ? pages_[page + 1] : size_;
  const ShardRecord& first = place_of(pages_[page]).record();
  const ShardRecord& last = place_of(end - 1).record();
  const auto size = static_cast<int64_t>(last.offset + last.size - first.offset);
  const auto held = cache_->get(static_cast<int64_t>(page), size, [&](PageCache::Page& bytes) {
    place.shard.read(first.offset, bytes);
  });
  std::memcpy(to.data(), held->data() + (record.offset - first.offset), to.size());
}

static void check(const ShardRecord& record, std::span<const uint8_t> bytes) {
  const uint32_t crc = crc32c(std::as_bytes(bytes));
  if (crc != record.checksum)
    fail(Exit::data, fmt::format("damaged: checksum {:08x}, it was packed with {:08x}; pack it "
                                 "again, or write  data.on_damaged: skip",
                                 crc, record.checksum));
}

void Packed::read(int64_t index, std::span<uint8_t> to) const {
  const Place place = place_of(index);
  try {
    copy(index, to);
    check(place.record(), to);
  } catch (const Error& error) {
    throw DamagedRecord(error, place.shard.path());
  }
}

Sample Packed::at_least(int64_t index, const ViewOf& wanted, Scratch& scratch) const {
  const ShardRecord& r = place_of(index).record();
  if (r.form >= Form::file) {
    Sample sample = decode_image(encoded(index)->file, scratch, wanted);
    sample.label = r.label;
    return sample;
  }
  scratch.resize(r.size);
  read(index, scratch);
  Sample sample{scratch.data(), {info_.sample[0], r.height, r.width}, r.label};
  if (r.form == Form::interleaved)
    sample.part = {.height = r.height, .width = r.width, .interleaved = true};
  return sample;
}

std::optional<EncodedSample> Packed::encoded(int64_t index) const {
  const ShardRecord& r = place_of(index).record();
  if (r.form < Form::file) return {};
  EncodedSample sample{std::vector<uint8_t>(r.size), r.label};
  read(index, sample.file);
  if (r.form == Form::reason)
    fail(Exit::data, printable(std::string(sample.file.begin(), sample.file.end())),
         ", when it was packed");
  return sample;
}

static std::shared_ptr<const Dataset> make_packed(const PackedOptions& o, const DatasetContext& c) {
  return std::make_shared<Packed>(o, c.split);
}

static const AddEntry<MakeDataset> entry("packed", "shards that `trainer pack` has written",
                                         &make_packed);

}  // namespace bellows
