// The packed cache: copies of data sets, packed into shards in the user's cache folder.
#pragma once
#include "data/sets/damaged.h"

namespace bellows {

// Returns a description of what a data set is read from: its name, options and sources_of(), and a
// stamp (paths, sizes, times) of all files and folders of the sources. For data that the program
// generates, the stamp is that of the program.
std::string source_of(const DatasetChoice& choice);

// Returns true if both splits are in the cache, so that cached_copy() would write nothing. With
// `classes`, only if the copies have these class_names(), in this order.
bool has_cached_copy(const DatasetChoice& choice, const std::vector<std::string>& classes = {});

struct PackedCacheOptions {
  OnDamaged on_damaged = OnDamaged::error;
  double timeout_s = 60;  // how long to wait for another process that packs the same data set
};

// Returns the cached copy of a split, with the same samples as the data set. Packs it first (files
// as they are, else raw pixels) if the cache has none for source_of(), and replaces one that was
// packed from the same sources before they changed. Reports the copy's folder in `notes`; the
// copy's notes() are those of the data set. Returns the data set `packed` itself: it needs no copy.
//
// One process packs. Others wait for it, report so on stderr, and after timeout_s return the data
// set itself. A copy that cannot be opened is packed again. A record that is found damaged later is
// read from the data set, with one warning, and the next run packs again.
//
// A sample that is damaged in the data set is damaged in the copy too, under the same index, and
// its origin names the file. With `skip` this includes samples that cannot be read at all. Throws
// Error as pack() does, and Error(Exit::storage) if the cache cannot be written.
DatasetPtr cached_copy(const DatasetChoice& choice, Split split, const PackedCacheOptions& options,
                       std::vector<std::string>& notes);

}  // namespace bellows
