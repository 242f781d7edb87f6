// Padded products: the same values and shapes, and their cost.
#include "ops/matmul/padded.h"
#include <gtest/gtest.h>
#include "autograd/amp.h"
#include "autograd/backward.h"
#include "core/tensor/channel_room.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "core/tensor/rng.h"
#include "ops/base/op.h"
#include "ops/conv/conv2d.h"
#include "ops/cross_entropy.h"
#include "ops/matmul/linear.h"
#include "tests/moved.h"

using namespace bellows;

namespace {

Tensor normal(const Shape& shape, uint64_t seed) {
  const Tensor t(shape, DType::f32);
  fill_normal(t, 0, 1, {.seed = seed, .purpose = Purpose::test});
  return t;
}

int64_t bytes_padded_by(const auto& fn) {
  const Moved bytes("pad.bytes");
  fn();
  return bytes;
}

void expect_near(const Tensor& a_, const Tensor& b_, double tolerance) {
  ASSERT_EQ(a_.shape(), b_.shape());
  ASSERT_EQ(a_.dtype(), b_.dtype());
  const Tensor a = contiguous(cast(a_, DType::f32)), b = contiguous(cast(b_, DType::f32));
  for (int64_t i = 0; i < a.numel(); ++i)
    EXPECT_NEAR(a.data<float>()[i], b.data<float>()[i], tolerance) << i;
}

// A convolution, a linear layer of 10 classes and the loss, in 16 bits.
struct Net {
  Tensor x = require_grad(normal({3, 3, 6, 5}, 1)), w = require_grad(normal({6, 3, 3, 3}, 2)),
         b = require_grad(normal({6}, 3)), head = require_grad(normal({10, 72}, 4)),
         head_bias = require_grad(normal({10}, 5));
  Slot conv, linear_slot;

  Tensor logits() {
    const Tensor y = conv2d(x, w, b, {}, &conv);
    const Tensor rows = record(
        "rows", contiguous(y.detach()).view_as({3, 72}), {y},
        [shape = y.shape()](const Tensor& dy) { return Grads{contiguous(dy).view_as(shape)}; });
    return linear(rows, head, head_bias, &linear_slot);
  }
  Tensors run(bool padded, bool vendor, DType low) {
    const Kernels use({.vendor = vendor, .pad_channels = padded});
    const Autocast precision(low);
    const Tensor y = logits(), loss = cross_entropy(y, tensor_of<int64_t>({1, 9, 4}, {3}));
    backward(loss);
    return {loss.detach(), y.detach(), grad(x), grad(w), grad(b), grad(head), grad(head_bias)};
  }
};

}  // namespace

// A head of 10 classes is computed with 16; the other six never show.
TEST(Padded, GivesTheLossAndTheGradientsOfTheRealClasses) {
  for (const bool vendor : {false, true})
    for (const DType low : {DType::bf16, DType::f16}) {
      SCOPED_TRACE(cat(low, vendor ? " vendor" : ""));
      const Tensors want = Net().run(false, vendor, low);
      const Moved channels("pad.channels");
      const Tensors got = Net().run(true, vendor, low);
      EXPECT_EQ(channels, (8 - 3) + (8 - 6) + (16 - 10)) << "72 is a multiple already";
      EXPECT_EQ(got[1].shape(), (Shape{3, 10}));
      ASSERT_EQ(want.size(), got.size());
      for (size_t i = 0; i < want.size(); ++i) {
        SCOPED_TRACE(i);
        expect_near(want[i], got[i], low == DType::bf16 ? 0.1 : 0.01);
      }
    }
}

TEST(Padded, IsIdleInF32AndWhereAllIsAMultiple) {
  EXPECT_EQ(bytes_padded_by([] { Net().run(true, false, DType::f32); }), 0);
  const Kernels use({.pad_channels = true});
  const auto multiples = [] {
    const Autocast precision(DType::bf16);
    conv2d(normal({1, 8, 4, 4}, 1), normal({16, 8, 3, 3}, 2), Tensor());
    linear(normal({3, 24}, 1), normal({8, 24}, 2), Tensor());
  };
  EXPECT_EQ(bytes_padded_by(multiples), 0);
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
      return bytes_padded_by([&] {
        y = padded::forward(kernels::conv2d, images, w, Tensor(), Conv2dOptions(), slot);
        padded::backward_w(kernels::conv2d_backward_w, y, images, dw, Tensor(), Conv2dOptions(),
                           slot);
      });
    };
    run(values);
    const int64_t copied = run(values);
    const Tensor want = y, want_dw = clone(dw);
    EXPECT_EQ(copied - run(x), 2 * (2 * 8 * 6 * 7 * 2));
    expect_near(want, y, 0);
    expect_near(want_dw, dw, 0);
    EXPECT_TRUE(y.is_contiguous(kNHWC));
  }
}
