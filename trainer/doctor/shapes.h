// Which layers miss the sizes that Tensor Cores like.
#pragma once
#include <string>
#include "core/tensor/named.h"

namespace bellows {

// The weights (out, in, ..) of which a size is no multiple of 8, a line each with the sizes to pad
// it to; or one line that there are none.
std::string odd_shapes(const NamedTensors& parameters);

}  // namespace bellows
