// Image sizes, checked before an epoch over them begins.
#pragma once
#include "data/loader/loader.h"

namespace bellows {

// Throws Error(Exit::data) that names the first sample whose size the loader's transforms refuse,
// as a crop does that is larger than the image. Reads the header of every file, but only where the
// images differ in size and some size would be refused. Samples that cannot be read follow
// on_damaged. For the compute thread.
void check_sizes(const Loader& loader);

}  // namespace bellows
