// conv_act_pool against the composed implementation beyond the generic suite: in f32, whose vectors
// have other widths than those of f64, for batches near the size of a vector.
#include "ops/conv/conv_act_pool.h"
#include <gtest/gtest.h>
#include <cmath>
#include "autograd/backward.h"
#include "autograd/gradcheck.h"
#include "core/base/philox.h"
#include "core/tensor/copy.h"
#include "ops/shape.h"
#include "tests/difference.h"

using namespace bellows;

namespace {

Tensor normal(const Shape& shape, uint64_t seed, DType dtype = DType::f32) {
  const Tensor t(shape, DType::f64);
  const Philox rng({.seed = seed});
  for (int64_t i = 0; i < t.numel(); ++i) t.data<double>()[i] = rng.normal(i);
  return require_grad(cast(t, dtype));
}

struct Layer {
  int64_t N, C, H, W, K, kernel, padding;
};

// y and all gradients, as doubles.
std::vector<Tensor> run(const Layer& l, Impl impl, DType dtype) {
  const Tensor x = normal({l.N, l.C, l.H, l.W}, 1, dtype), b = normal({l.K}, 3, dtype);
  const Tensor w = normal({l.K, l.C, l.kernel, l.kernel}, 2, dtype);
  const Tensor y = conv_act_pool(x, w, b, l.padding, impl);
  backward(probe_loss(y));
  std::vector<Tensor> all;
  for (const Tensor& t : {y.detach(), grad(x), grad(w), grad(b)})
    all.push_back(contiguous(cast(t, DType::f64)));
  return all;
}

}  // namespace

class ConvActPool : public testing::TestWithParam<Layer> {};

TEST_P(ConvActPool, FusedInF32EqualsComposedInF64) {
  const auto want = run(GetParam(), Impl::composed, DType::f64);
  const auto got = run(GetParam(), Impl::fused, DType::f32);
  const char* const names[] = {"y", "dx", "dw", "db"};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_LE(difference(want[i], got[i]), 1e-5) << names[i];
}

// Samples in the lanes (16, and 17 and 31 with a tail), channels in the lanes (1, 3), more channels
// than a vector or a mask has bits, odd sizes that the pool truncates, kernels of all three kinds,
// patch rows of half a vector, of several, and of more than fit into the registers.
INSTANTIATE_TEST_SUITE_P(Layers, ConvActPool,
                         testing::Values(Layer{64, 1, 28, 28, 6, 5, 2},
                                         Layer{64, 6, 14, 14, 16, 5, 0},
                                         Layer{1, 1, 28, 28, 6, 5, 2},
                                         Layer{1, 6, 14, 14, 16, 5, 0},
                                         Layer{16, 3, 11, 9, 5, 3, 1}, Layer{17, 3, 11, 9, 5, 3, 1},
                                         Layer{31, 2, 7, 8, 7, 2, 0}, Layer{3, 2, 20, 19, 33, 4, 3},
                                         Layer{2, 24, 9, 9, 40, 3, 1}, Layer{5, 30, 8, 8, 3, 5, 2},
                                         Layer{18, 1, 40, 6, 2, 1, 0}, Layer{5, 2, 1, 6, 3, 2, 1}));

// The elements of such a gradient are not contiguous, though its first and last ones are as far
// apart as if they were.
TEST(ConvActPoolBackward, TakesAGradientWithSwappedAxes) {
  const auto gradients = [](Impl impl) {
    const Tensor x = normal({5, 2, 6, 6}, 1, DType::f64), b = normal({3}, 3, DType::f64),
                 w = normal({3, 2, 3, 3}, 2, DType::f64);
    const Tensor y = conv_act_pool(x, w, b, 1, impl);
    backward(probe_loss(reshape(permute(y, {0, 1, 3, 2}), {5, 27})));
    return std::vector{grad(x), grad(w), grad(b)};
  };
  const auto want = gradients(Impl::composed), got = gradients(Impl::fused);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_LE(difference(want[i], got[i]), 1e-12) << i;
}

TEST(ConvActPool, SampleIsTheSameInAnyBatch) {
  const Tensor x = normal({33, 6, 14, 14}, 1), w = normal({16, 6, 5, 5}, 2), b = normal({16}, 3);
  const NoGrad guard;
  const Tensor all = contiguous(conv_act_pool(x, w, b, 0, Impl::fused));  // samples in the lanes
  const int64_t sample = 6 * 14 * 14;
  const Tensor last = x.view({1, 6, 14, 14}, x.strides(), 32 * sample);
  const Tensor one = contiguous(conv_act_pool(last, w, b, 0, Impl::fused));  // channels
  EXPECT_TRUE(std::ranges::equal(one.data<float>(), all.data<float>().last(16 * 5 * 5)));
}

TEST(ConvActPool, KeepsNaNAndMakesNone) {
  using Floats = std::vector<float>;
  for (const auto& [window, largest] : {std::pair(Floats{NAN, 1, 2, 3}, NAN),
                                        {Floats{INFINITY, -INFINITY, 1, 2}, INFINITY},
                                        {Floats{2e38f, 2e38f, -2e38f, -2e38f}, 2e38f}})
    for (const int64_t N : {1, 16}) {
      const Tensor x({N, 1, 2, 2}, DType::f32), w = full({1, 1, 1, 1}, 1), b = full({1}, 0);
      for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = window[i % 4];
      const Tensor y = conv_act_pool(x, w, b, 0, Impl::fused), want = full({N, 1, 1, 1}, largest);
      EXPECT_EQ(difference(want, y), 0) << N;
    }
}
