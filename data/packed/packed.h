// packed: samples from shards (data/packed/shard.h), one read each.
#pragma once
#include "data/packed/shard.h"

namespace bellows {

struct PackedOptions {
  std::string folder = "datasets/packed";
};
void visit(Visitor& v, PackedOptions& o);

class Packed : public Dataset {
 public:
  // Opens all shards of the split. Throws Error(Exit::data) with the path of a shard that is
  // missing, damaged or from another packing.
  Packed(const PackedOptions& options, Split split);

  int64_t size() const override { return size_; }
  const DatasetInfo& info() const override { return info_; }
  // Verifies the record's checksum on every call. Throws Error(Exit::data).
  Sample at_least(int64_t index, const ViewOf& wanted, Scratch& scratch) const override;
  std::optional<EncodedSample> encoded(int64_t index) const override;
  std::string origin(int64_t index) const override;
  int64_t label(int64_t index) const override { return place_of(index).record().label; }
  bool fixed_pixels() const override;

 private:
  struct Place {
    const Shard& shard;
    size_t number;  // index of the record in the shard
    const ShardRecord& record() const { return shard.records()[number]; }
  };

  Place place_of(int64_t index) const;
  void read(int64_t index, std::span<uint8_t> to) const;

  std::vector<std::unique_ptr<const Shard>> shards_;
  std::vector<int64_t> firsts_;  // first sample of each shard
  int64_t size_ = 0;
  DatasetInfo info_;
};

}  // namespace bellows
