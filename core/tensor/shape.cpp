#include "core/tensor/shape.h"

namespace bellows {

// Axes other than batch and channels keep their order; size-1 axes get ordinary strides too.
Strides strides_of(const Shape& shape, const MemoryFormat& format) {
  const int rank = shape.rank();
  std::array<int, kMaxRank> order{};
  if (rank < 2 || format == kNCHW) {
    for (int i = 0; i < rank; ++i) order[i] = i;
  } else if (format == kNHWC) {
    for (int i = 0; i < rank; ++i) order[i] = i == 0 ? 0 : i == rank - 1 ? 1 : i + 1;
  } else {
    for (int i = 0; i < rank; ++i) order[i] = i == rank - 1 ? 0 : i + 1;
  }
  Strides strides = shape;
  int64_t step = 1;
  for (int i = rank - 1; i >= 0; --i) {
    strides[order[i]] = step;
    step *= std::max<int64_t>(shape[order[i]], 1);
  }
  return strides;
}

}  // namespace bellows
