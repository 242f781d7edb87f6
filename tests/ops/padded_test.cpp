// Padded products: images that need no copy. Toggles' tests compare losses.
#include "ops/matmul/padded.h"
#include <gtest/gtest.h>
#include "core/tensor/channel_room.h"
#include "core/tensor/copy.h"
#include "core/tensor/rng.h"
#include "ops/conv/conv2d.h"
#include "tests/difference.h"
#include "tests/moved.h"

using namespace bellows;

static Tensor normal(const Shape& shape, uint64_t seed) {
  const Tensor t(shape, DType::f32);
  fill_normal(t, 0, 1, {.seed = seed, .purpose = Purpose::test});
  return t;
}

// Images whose channels are already followed by zeros are not copied, forward or backward.
TEST(Padded, FindsZerosWhereTheyLie) {
  const Tensor w = cast(normal({5, 3, 3, 3}, 2), DType::bf16);
  const Tensor values = contiguous(cast(normal({2, 3, 6, 7}, 1), DType::bf16), kNHWC);
  const Tensor room = channel_room({4, 8, 6, 7}, DType::bf16, Device::cpu);
  const Tensor x = room.view(values.shape(), room.strides(), room.strides()[0]);  // images 1 and 2
  copy_into(x, values);
  for (const bool vendor : {false, true}) {
    const Kernels use({.vendor = vendor, .pad_channels = true});
    Slot slot;
    Tensor y, dw({5, 3, 3, 3}, DType::bf16);
    const auto run = [&](const Tensor& images) {
      const Moved bytes("pad.bytes");
      y = padded::forward(kernels::conv2d, images, w, Tensor(), Conv2dOptions(), slot);
      padded::backward_w(kernels::conv2d_backward_w, y, images, dw, Tensor(), Conv2dOptions(),
                         slot);
      return int64_t(bytes);
    };
    run(values);
    const int64_t copied = run(values);
    const Tensor want = y, want_dw = clone(dw);
    EXPECT_EQ(copied - run(x), 2 * (2 * 8 * 6 * 7 * 2));
    EXPECT_EQ(difference(want, y), 0);
    EXPECT_EQ(difference(want_dw, dw), 0);
    EXPECT_TRUE(y.is_contiguous(kNHWC));
  }
}
