// The packed twin of a data set: the same samples, out of shards in the user's cache.
#pragma once
#include "data/sets/damaged.h"

namespace bellows {

// Source of a data set: its name and options, size and time of every file below those that
// are paths, and for one that is made by the program the program's own.
std::string source_of(const DatasetChoice& choice);

// Both splits have been packed, so that packed_twin() would write nothing.
bool has_packed_twin(const DatasetChoice& choice);

struct PackedTwinOptions {
  OnDamaged on_damaged = OnDamaged::error;
  double timeout_s = 60;  // how long to wait for another process that packs the same
};

// Packs the split (files as they are, else raw pixels) unless that was done before: into a folder
// of cache_folder() that belongs to source_of(). A process that wants the same waits for the first
// one, says so on stderr, and after timeout_s reads the data set itself: training does not depend
// on its twin, and has the same samples either way. For the same reason a twin that is damaged is
// packed again; a record that is found damaged later is read from the data set, with one warning,
// and the next run packs again. Says in `notes` where the twin is. What is packed is its own twin.
//
// A sample that is damaged is so in the twin, under the same index, and its origin names the file;
// with `skip`, one that cannot be read at all, too. Throws Error as pack() does, exit 8 where the
// cache cannot be written.
std::shared_ptr<const Dataset> packed_twin(const DatasetChoice& choice, Split split,
                                           const PackedTwinOptions& options,
                                           std::vector<std::string>& notes);

}  // namespace bellows
