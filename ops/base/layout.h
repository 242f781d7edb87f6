// In which order images lie in memory, as a footprint.
#pragma once
#include "core/base/trace.h"
#include "core/tensor/tensor.h"

namespace bellows {

// By each op on images, of its input: layout.nhwc_ops.
inline void count_layout(const Tensor& x) {
  static trace::Counter& nhwc = trace::counter("layout.nhwc_ops");
  if (x.rank() == 4 && format_of(x) == kNHWC) nhwc.add();
}

}  // namespace bellows
