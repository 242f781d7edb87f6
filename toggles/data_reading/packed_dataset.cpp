#include "plan/toggle.h"

static const bellows::AddToggle packed_dataset({
    .aliases = {"ffcv", "webdataset", "tfrecord", "lmdb"},
    .idea = "All samples lie in a few indexed files (shards), so a sample is one read without "
            "opening a file. The first run packs the samples unchanged into the user's cache. Raw "
            "pixels and smaller images are options of `trainer pack` (trainer pack --help).",
    .claim = "one open per shard instead of one per sample; no figure in the seeds",
    .cost = "a second copy of the data on disk, made again when a file changes and kept until you "
            "run  rm -r ~/.cache/bellows/packed  (or $XDG_CACHE_HOME/bellows/packed). The first "
            "run waits for the packing; a run that starts meanwhile waits up to data.timeout_s for "
            "each split. Every start looks at size and times of each file. Data that fit in "
            "memory are read from disk instead.",
    .sources = "S0:7 S1:29",
    .footprint = "data.twin_reads",
    .same = bellows::Same::bitwise,
    .default_value = "off",
    .fast = "",  // helps only with many files
    .enable = [](bellows::Plan& plan) { plan.data.packed = true; },
});
