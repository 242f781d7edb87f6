// Packed twin of a data set: the same samples, in shards in the user's cache.
#pragma once
#include "data/sets/damaged.h"

namespace bellows {

// Returns a description of what a data set is read from: its name and options, and a stamp (paths,
// sizes, times) of all files below the options that are folders. For data that the program
// generates, the stamp is that of the program.
std::string source_of(const DatasetChoice& choice);

// Returns true if both splits are packed, so that packed_twin() would write nothing.
bool has_packed_twin(const DatasetChoice& choice);

struct PackedTwinOptions {
  OnDamaged on_damaged = OnDamaged::error;
  double timeout_s = 60;  // how long to wait for another process that packs the same data set
};

// Returns the twin of a split. Packs it first (files as they are, else raw pixels) unless that is
// done already, into a folder of cache_folder() that depends on source_of(). Reports in `notes`
// where the twin is. The data set `packed` is its own twin.
//
// One process packs; others wait for it, report so on stderr, and after timeout_s return the data
// set itself: training does not depend on its twin and has the same samples either way. For the
// same reason a twin that cannot be opened is packed again. A record that is found damaged later is
// read from the data set, with one warning, and the next run packs again.
//
// A sample that is damaged in the data set is damaged in its twin too, under the same index, and
// its origin names the file. With `skip` this includes samples that cannot be read at all. Throws
// Error as pack() does, and Error(Exit::storage) if the cache cannot be written.
std::shared_ptr<const Dataset> packed_twin(const DatasetChoice& choice, Split split,
                                           const PackedTwinOptions& options,
                                           std::vector<std::string>& notes);

}  // namespace bellows
