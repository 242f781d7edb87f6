// The tiled product of matmul and linear beyond the generic suite: the boundaries of narrow and
// wide tiles, and the small layers whose backward is one launch.
#include "ops/matmul/matmul.h"
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
  const Tensor a = normal({p.batch, p.M, p.K}, 1, dtype), b = normal({p.batch, p.K, p.N}, 2, dtype);
  const Tensor y = normal({p.batch, p.M, p.N}, 3, dtype), y_ = on_device(y, dtype);
  Slot slot;
  kernels::matmul(y, a, b, into, slot);
  kernels::matmul(y_, dense_along(on_device(a, dtype), a_rows),
                  dense_along(on_device(b, dtype), b_rows), into, slot);
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

TEST_P(TiledProduct, OfNothingIsZero) {
  const Tensor a({2, 3, 0}, DType::f32, Device::cuda), b({2, 0, 4}, DType::f32, Device::cuda);
  EXPECT_EQ(difference(full({2, 3, 4}, 0), kernels::product(a, b)), 0);
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

IN_ANY_ORDER(TiledProduct);
