// Finds weights whose sizes do not suit Tensor Cores.
#pragma once
#include <string>
#include "core/tensor/tensor.h"

namespace bellows {

// Returns a table of the weights (out, in, ..) with `out` or `in` not a multiple of 8, and the
// sizes to pad them to. Returns one line of text if there are none. Tensors of rank < 2 are
// ignored.
std::string unaligned_shapes(const NamedTensors& parameters);

}  // namespace bellows
