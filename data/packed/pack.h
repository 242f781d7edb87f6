// From a data set to shards (data/packed/shard.h).
#pragma once
#include "data/packed/shard.h"
#include "data/sets/damaged.h"

namespace bellows {

enum class Encoding {
  keep,  // files as they are, what is in no file as raw pixels: the same samples, bit for bit
  raw,   // pixels
  jpeg,  // made anew, with some loss; pictures of three channels only
};

struct PackOptions {
  Encoding encoding = Encoding::keep;
  int64_t side = 0;      // larger pictures are made smaller, to this shorter side; 0: they stay
  int64_t quality = 90;  // of the JPEGs that are made
  int64_t shard_bytes = int64_t{256} << 20;  // a shard begins when the last one has more
  OnDamaged on_damaged = OnDamaged::error;   // skip: what cannot be read is left out
  bool keep_places = false;  // and in its place stands why, so that a reader skips it, too
};

struct PackedSplit {
  int64_t samples = 0, shards = 0, bytes = 0, unreadable = 0;
  double seconds = 0;
};
std::string text_of(const PackedSplit& split);  // "20 samples, 1 shard, 0.06 MB, 0.01 s"

// Writes the shards of a split, in parallel as far as pictures are decoded; `source` says what it
// is. The folder is made if need be. Throws Error with the sample and where it comes from, exit 2
// for what cannot be packed like that. For the compute thread.
PackedSplit pack(const Dataset& dataset, Split split, const std::string& source, const Path& folder,
                 const PackOptions& options = {});

// One sample, as it is packed.
PackedRecord packed_record(const Dataset& dataset, int64_t index, const PackOptions& options);

}  // namespace bellows
