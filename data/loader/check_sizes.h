// Checks image sizes against the transforms before training starts.
#pragma once
#include "data/loader/loader.h"

namespace bellows {

// Throws Error(Exit::data) that names the first sample whose size the loader's transforms refuse,
// such as an image smaller than a crop. Reads the header of every file, but only if image sizes
// differ and some size would be refused. A sample that cannot be read is an error or ignored,
// according to on_damaged. Compute thread only.
void check_sizes(const Loader& loader);

}  // namespace bellows
