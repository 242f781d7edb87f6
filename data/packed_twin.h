// The packed twin of a data set: the same samples, out of shards in the user's cache.
#pragma once
#include "data/damaged.h"

namespace bellows {

// What a data set is read from: its name and options, size and time of every file below those that
// are paths, and for one that is made by the program the program's own.
std::string source_of(const DatasetChoice& choice);

// Both splits have been packed, so that packed_twin() would write nothing.
bool has_packed_twin(const DatasetChoice& choice);

// Packs the split (files as they are, else raw pixels) unless that was done before: into a folder
// of cache_folder() that belongs to source_of(). Processes that want the same wait for the first.
// Says in `notes` where it is. What is packed is its own twin. A sample that is damaged is so in
// the twin, under the same index, and its origin names the file; with `skip`, one that cannot be
// read at all, too. Throws Error as pack() does, exit 8 where the cache cannot be written.
std::shared_ptr<const Dataset> packed_twin(const DatasetChoice& choice, Split split,
                                           OnDamaged on_damaged, std::vector<std::string>& notes);

}  // namespace bellows
