// matmul, linear and conv2d beyond the generic suite: mixed dtypes, and libraries.
#include <gtest/gtest.h>
#include "autograd/amp.h"
#include "core/device/parallel.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "core/tensor/rng.h"
#include "ops/conv/conv2d.h"
#include "ops/conv/conv_act_pool.h"
#include "ops/matmul/linear.h"
#include "ops/matmul/matmul.h"
#include "tests/difference.h"
#include "tests/moved.h"
#include "tests/refusal.h"

using namespace bellows;

TEST(Products, RefuseTwoDTypes) {
  const Tensor rows = full({2, 3}, 1), images = full({2, 3, 4, 4}, 1);
  const Tensor w = full({4, 3}, 1, DType::f16), b = full({4}, 1, DType::f64);
  EXPECT_EQ(refusal([&] { matmul(rows, transposed(w)); }), "matmul: a is f32 and b is f16");
  EXPECT_EQ(refusal([&] { linear(rows, w, {}); }), "linear: x is f32 and w is f16");
  for (const Impl impl : {Impl::composed, Impl::fused})
    EXPECT_EQ(refusal([&] {
                linear_relu(rows, full({4, 3}, 1), b, impl);
              }),
              impl == Impl::fused ? "linear_relu: x is f32 and b is f64"
                                  : "linear: x is f32 and b is f64");
  const Tensor filter = full({4, 3, 1, 1}, 1, DType::bf16);
  EXPECT_EQ(refusal([&] { conv2d(images, filter, {}); }), "conv2d: x is f32 and w is bf16");
  EXPECT_EQ(refusal([&] {
              conv2d(images, full({4, 3, 1, 1}, 1), b);
            }),
            "conv2d: x is f32 and b is f64");
  EXPECT_EQ(refusal([&] { conv_act_pool(images, filter, b, 0, Impl::fused); }),
            "conv_act_pool: x is f32 and w is bf16");
}

// Autocast casts f32 only.
TEST(Products, RefuseOneLowDTypeUnderTheAutocastOfAnother) {
  const Autocast cast(DType::bf16);
  const Tensor x = full({2, 3}, 1, DType::f16), w = full({4, 3}, 1);
  EXPECT_EQ(refusal([&] { linear(x, w, {}); }), "linear: x is f16 and w is bf16");
}

// ---- libraries of f32 products on the CPU

static Tensor normal(const Shape& shape, uint64_t seed) {
  const Tensor t(shape, DType::f32);
  fill_normal(t, 0, 1, {.seed = seed, .purpose = Purpose::test});
  return t;
}

// Products of one tile and of several, of a batch, of transposed matrices, and sums.
static void expect_products_by(Blas blas, const char* counter) {
  int64_t counted = 0;
  for (const auto& [B, M, K, N] : {std::array<int64_t, 4>{1, 1, 400, 120},
                                   {1, 300, 500, 130},
                                   {3, 33, 70, 65},
                                   {1, 7, 1, 1},
                                   {1, 33, 2000, 600}})
    for (const bool across : {false, true}) {
      const Tensor a = normal({B, M, K}, 1), w = transposed(normal({B, N, K}, 2));
      const Tensor b = across ? w : contiguous(w);
      const Tensor y = normal({B, M, N}, 3), want = cast(y, DType::f64);
      kernels::multiply(want, cast(a, DType::f64), cast(b, DType::f64), Into::add);
      const Moved products(counter);  // Eigen computed `want`
      const Kernels use({.vendor = true, .blas = blas});
      kernels::multiply(y, a, b, Into::add);
      counted += products;
      EXPECT_LE(difference(want, y), 1e-5) << counter << a.shape() << b.shape() << across;
    }
  EXPECT_GE(counted, 10);
}

TEST(Products, OfEachLibraryAreTheSame) {
  expect_products_by(Blas::eigen, "blas.eigen");
  if (kernels::matmul.has_vendor(Device::cpu)) expect_products_by(Blas::onednn, "blas.onednn");
}

TEST(Products, OfOpenBlasAreTheSameOrNameItsPackage) {
  if (!openblas::core().empty()) return expect_products_by(Blas::openblas, "blas.openblas");
  const Kernels use({.blas = Blas::openblas});
  const Refusal missing = refused([] { matmul(full({2, 3}, 1), full({3, 2}, 1)); });
  EXPECT_EQ(missing.exit, Exit::usage);
  EXPECT_EQ(missing.message,
            "cpu.blas=openblas: there is no libopenblas.so.0; type  apt-get install "
            "libopenblas0-pthread");
}

// Products of one tile and of several, with partial tiles, in both orientations. A library's own
// pool of threads would compete with that of the run.
static void expect_same_bits_for_any_threads(Blas blas) {
  const int before = omp_get_max_threads();
  const Kernels use({.vendor = true, .blas = blas});
  for (const auto& [M, K, N] :
       {std::array<int64_t, 3>{1, 400, 120}, {64, 400, 120}, {300, 500, 130}, {33, 4000, 1100}})
    for (const bool across : {false, true}) {
      const Tensor a = normal({M, K}, 1), w = transposed(normal({N, K}, 2));
      const Tensor b = across ? w : contiguous(w);
      const auto bits = [&](int threads) {
        omp_set_num_threads(threads);
        const Tensor y = matmul(a, b);
        EXPECT_EQ(omp_get_max_threads(), threads);
        return std::vector<float>(y.data<float>().begin(), y.data<float>().end());
      };
      const std::vector<float> alone = bits(1);
      for (const int threads : {2, 3, 8}) EXPECT_EQ(bits(threads), alone);
    }
  omp_set_num_threads(before);
}

TEST(Products, HaveTheSameBitsForAnyNumberOfThreads) {
  expect_same_bits_for_any_threads(Blas::onednn);
  if (!openblas::core().empty()) expect_same_bits_for_any_threads(Blas::openblas);
}

// f64, and products in 16 bits, have no other library.
TEST(Products, OfOtherTypesIgnoreTheLibrary) {
  const Moved products("blas.openblas");
  const Kernels use({.vendor = true, .blas = Blas::openblas});
  for (const DType dtype : {DType::f64, DType::bf16}) {
    const Tensor y = matmul(full({2, 3}, 1, dtype), full({3, 2}, 1, dtype));
    EXPECT_EQ(cast(y, DType::f32).data<float>()[0], 3) << dtype;
  }
  EXPECT_EQ(products, 0);
}
