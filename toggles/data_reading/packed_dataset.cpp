#include "plan/toggle.h"

static const bellows::AddToggle toggle({
    .name = "packed_dataset",
    .aliases = {"ffcv", "webdataset", "tfrecord", "lmdb"},
    .idea = "All samples lie in a few files with an index (shards), so a sample is one read and no "
            "file is opened for it. The first run packs them into the user's cache, as they are; "
            "raw pixels, a cache in memory and an order by pages are options of a packed data set "
            "of one's own: trainer pack, explain packed.",
    .claim = "one open a shard instead of one a sample; no figure in the seeds",
    .cost = "takes the data's size again on disk, anew when a file of it has changed, until you "
            "remove it: rm -r ~/.cache/bellows/packed (or $XDG_CACHE_HOME/bellows/packed); the "
            "first run waits for the packing, and one that starts meanwhile for that, up to "
            "data.timeout_s; what is in memory anyway is read from disk instead",
    .sources = "S0:7 S1:29",
    .footprint = "data.twin_reads",
    .same = bellows::Same::bitwise,
    .statistical_where = "data.quasi_random_orders",  // depend on the page layout
    .default_value = "off",
    .fast = "",  // helps only with many files
    .enable = [](bellows::Plan& plan, const std::string&) { plan.data.packed = true; },
});
