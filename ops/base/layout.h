// Counts the ops that run in NHWC; the toggle channels_last shows it as its footprint.
#pragma once
#include "core/base/trace.h"
#include "core/tensor/tensor.h"

namespace bellows {

// Increments layout.nhwc_ops if x, the input of an op on images, is (N, C, H, W) in NHWC.
inline void count_layout(const Tensor& x) {
  static trace::Counter& nhwc = trace::counter("layout.nhwc_ops");
  if (x.rank() == 4 && format_of(x) == kNHWC) nhwc.add();
}

}  // namespace bellows
