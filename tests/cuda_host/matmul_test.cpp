// The tiled product of matmul and linear, at the boundaries of narrow and wide tiles.
#include "ops/matmul/matmul.h"
#include "core/base/trace.h"
#include "core/tensor/foreach.h"
#include "ops/matmul/linear.h"
#include "tests/cuda_host/beside_cpu.h"

using namespace cuda_host;

namespace {

struct Product {
  int64_t batch, M, K, N;
};
std::ostream& operator<<(std::ostream& out, const Product& p) {
  return out << p.batch << " of " << p.M << " x " << p.K << " x " << p.N;
}

Tensor dense_along(const Tensor& t, bool rows) {
  return with_order(t, rows ? std::vector{0, 1, 2} : std::vector{0, 2, 1});
}

void expect_product(const Product& p, DType dtype, bool a_rows, bool b_rows, Into into) {
  SCOPED_TRACE(cat(p, " ", dtype, a_rows ? "" : " a by columns", b_rows ? "" : " b by columns",
                   into == Into::add ? " added" : ""));
  const Tensor a = dense_along(normal({p.batch, p.M, p.K}, 1, dtype), a_rows);
  const Tensor b = dense_along(normal({p.batch, p.K, p.N}, 2, dtype), b_rows);
  const Tensor y = normal({p.batch, p.M, p.N}, 3, dtype), y_ = on_device(y, dtype);
  const Tensor a_ = dense_along(on_device(contiguous(a), dtype), a_rows);
  const Tensor b_ = dense_along(on_device(contiguous(b), dtype), b_rows);
  Slot slot;
  kernels::matmul(y, a, b, into, slot);
  kernels::matmul(y_, a_, b_, into, slot);
  EXPECT_LE(difference(y, y_), tolerance_of(dtype));
}

struct TiledProduct : InAnyOrder {};

}  // namespace

TEST_P(TiledProduct, NarrowTiles) {
  for (const Product& p : {Product{1, 1, 1, 1},
                           {1, 15, 127, 17},
                           {1, 16, 128, 16},
                           {2, 17, 129, 15},
                           {1, 33, 3, 1},
                           {3, 1, 300, 31}})
    for (const bool a_rows : {true, false})
      for (const bool b_rows : {true, false})
        expect_product(p, DType::f32, a_rows, b_rows, Into::overwrite);
}

// A tile for each of 132 multiprocessors, which selects the wide tiles.
TEST_P(TiledProduct, WideTiles) {
  expect_product({132, 63, 15, 17}, DType::f32, true, true, Into::overwrite);
  expect_product({132, 17, 17, 64}, DType::f32, false, true, Into::overwrite);
  expect_product({66, 64, 16, 65}, DType::f32, true, false, Into::add);
  expect_product({33, 65, 33, 66}, DType::f32, false, false, Into::overwrite);
}

TEST_P(TiledProduct, EveryDtype) {
  for (const DType dtype : kFloats)
    for (const Into into : {Into::overwrite, Into::add}) {
      expect_product({1, 18, 130, 20}, dtype, true, false, into);
      expect_product({33, 65, 17, 70}, dtype, false, true, into);
    }
}

TEST_P(TiledProduct, OneMatrixAgainstABatch) {
  const Tensor a = normal({3, 5, 7}, 1), b = normal({7, 4}, 2);
  const Tensor a_ = on_device(a, DType::f32), b_ = on_device(b, DType::f32);
  EXPECT_LE(difference(kernels::product(a, b), kernels::product(a_, b_)), 2e-6);
}

TEST_P(TiledProduct, OfNothingIsZero) {
  const Tensor a({2, 3, 0}, DType::f32, Device::cuda), b({2, 0, 4}, DType::f32, Device::cuda);
  EXPECT_EQ(difference(full({2, 3, 4}, 0), kernels::product(a, b)), 0);
}

TEST_P(TiledProduct, LinearWithAndWithoutBias) {
  for (const DType dtype : kFloats)
    for (const bool bias : {true, false})
      for (const Activation activation : {Activation::none, Activation::relu}) {
        SCOPED_TRACE(cat(dtype, bias ? " with bias" : "", activation == Activation::relu));
        const Tensor x = normal({18, 40}, 1, dtype), w = normal({33, 40}, 2, dtype);
        const Tensor b = bias ? normal({33}, 3, dtype) : Tensor();
        const Tensor w_ = with_order(on_device(w, dtype), {1, 0}, 2);
        Slot slot;
        EXPECT_LE(difference(kernels::linear(x, w, b, activation, slot),
                             kernels::linear(on_device(x, dtype), w_, on_device(b, dtype),
                                             activation, slot)),
                  tolerance_of(dtype));
      }
}

// Both products of a small layer's backward, relu's included, in one launch: equal to the steps, on
// the CPU and, for dx and dw in f32, bit for bit on the device.
TEST_P(TiledProduct, LinearBackwardOfASmallLayer) {
  const trace::Counter& launches = trace::counter("cuda.launches");
  for (const DType dtype : kFloats)
    for (const bool relu : {false, true})
      for (const auto& [rows, out, in] : {std::array{18, 33, 40}, {5, 10, 16}, {64, 1, 3}}) {
        SCOPED_TRACE(cat(dtype, relu ? " relu " : " ", rows, " ", out, " ", in));
        const Tensor x = normal({rows, in}, 1, dtype), w = normal({out, in}, 2, dtype);
        const Tensor dy = normal({rows, out}, 3, dtype),
                     y = relu ? normal({rows, out}, 4, dtype) : Tensor();
        struct Grads {
          Tensor dx, dw, db;
        };
        const auto run = [&](const auto& kernel, DType type, Device device, const auto& move) {
          Slot slot;
          Grads g{{}, Tensor(w.shape(), type, device), Tensor({w.dim(0)}, type, device)};
          g.dx = kernel(move(dy), move(y), with_order(move(x), {1, 0}), with_order(move(w), {1, 0}),
                        g.dw, g.db, true, slot);
          return g;
        };
        const auto same = [](const Tensor& t) { return t; };
        const auto moved = [&](const Tensor& t) { return on_device(t, dtype); };
        const Grads want = run(kernels::linear_backward, DType::f64, Device::cpu, same);
        const int64_t before = launches.value();
        const Grads got = run(kernels::linear_backward, dtype, Device::cuda, moved);
        EXPECT_EQ(launches.value() - before, 1 + 4) << "and two of each with_order()";
        const Grads steps = run(kernels::linear_backward_in_steps, dtype, Device::cuda, moved);
        EXPECT_LE(difference(want.dx, got.dx), tolerance_of(dtype)) << "dx";
        EXPECT_LE(difference(want.dw, got.dw), tolerance_of(dtype)) << "dw";
        EXPECT_LE(difference(want.db, got.db), tolerance_of(dtype)) << "db";
        EXPECT_EQ(difference(to(Device::cpu, steps.dx), got.dx), 0) << "dx of the steps";
        EXPECT_EQ(difference(to(Device::cpu, steps.dw), got.dw), 0) << "dw of the steps";
      }
}

// From one row and column to many rows.
TEST_P(TiledProduct, SumsOfRows) {
  for (const Shape& shape :
       {Shape{1, 1}, {7, 31}, {9, 33}, {64, 120}, {1024, 3}, {1025, 3}, {1600, 40}})
    for (const DType dtype : kFloats) {
      SCOPED_TRACE(cat(shape, " ", dtype));
      const Tensor dy = normal(shape, 1, dtype), db({shape[1]}, DType::f64);
      const Tensor dy_ = on_device(dy, dtype), db_({shape[1]}, dtype, Device::cuda);
      kernels::sum_rows(dy, db);
      kernels::sum_rows(dy_, db_);
      EXPECT_LE(difference(db, db_), tolerance_of(dtype));
    }
}

TEST(TiledProductTwice, GivesTheSameBits) {
  EXPECT_EQ(order_dependence([] {
              const Tensor a = on_device(normal({40, 300}, 1), DType::f32);
              const Tensor b = on_device(normal({300, 24}, 2), DType::f32);
              const Tensor y = to(Device::cpu, kernels::product(a, b));
              return std::vector<float>(y.data<float>().begin(), y.data<float>().end());
            }),
            "");
}

IN_ANY_ORDER(TiledProduct);
