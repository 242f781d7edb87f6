// Packs a data set into shards (data/packed/shard.h).
#pragma once
#include "core/base/file.h"
#include "data/sets/dataset.h"

namespace bellows {

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
