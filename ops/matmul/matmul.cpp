#include "ops/matmul/matmul.h"
#include <Eigen/Core>
#include "autograd/amp.h"
#include "core/base/round.h"
#include "core/base/trace.h"
#include "core/device/parallel.h"
#include "core/tensor/copy.h"
#include "core/tensor/in_f32.h"
#include "ops/base/op.h"
#include "ops/base/work.h"

namespace bellows {

// ---- the op

Tensor transposed(const Tensor& t) {
  Shape shape = t.shape();
  Strides strides = t.strides();
  std::swap(shape[-1], shape[-2]);
  std::swap(strides[-1], strides[-2]);
  return t.view(shape, strides, t.offset());
}

static Shape product_shape(const Shape& a, const Shape& b) {
  CHECK(a.rank() >= 2 && b.rank() >= 2 && a[-1] == b[-2], "matmul: shapes ", a, " and ", b,
        " need a last axis of the first equal to the second to last of the second");
  Shape y = a;
  y[-1] = b[-1];
  if (b.rank() == 2) return y;
  bool same = a.rank() == b.rank();
  for (int i = 0; same && i < a.rank() - 2; ++i) same = a[i] == b[i];
  CHECK(same, "matmul: shapes ", a, " and ", b, " differ in their leading axes");
  return y;
}

Tensor matmul(const Tensor& a_, const Tensor& b_) {
  const auto [a, b] = amp::low(a_, b_);
  product_shape(a.shape(), b.shape());
  CHECK(a.dtype() == b.dtype(), "matmul: a is ", a.dtype(), " and b is ", b.dtype());
  Slot cache;
  const Tensor y = kernels::product(a, b, &cache);
  if (!will_record(a, b)) return y;
  return record("matmul", y, {a, b},
                [a = Saved(a), b = Saved(b), cache, needs_da = needs_grad(a),
                 needs_db = needs_grad(b)](const Tensor& dy) mutable {
                  Grads grads(2);
                  if (needs_da) grads[0] = kernels::product(dy, transposed(b()), &cache);
                  if (needs_db) {
                    const bool shared = b().rank() == 2 && a().rank() > 2;
                    grads[1] = shared ? kernels::product(transposed(kernels::flat_rows(a())),
                                                         kernels::flat_rows(dy), &cache)
                                      : kernels::product(transposed(a()), dy, &cache);
                  }
                  return grads;
                });
}

static const AddWork work("matmul", [](const RecordedOp& op) {
  return product(op, 2.0 * double(op.y.numel()) * double(op.inputs.at(0).shape[-1]));
});

static const AddOp spec(
    {.name = "matmul",
     .math = "y = a b, over the last two axes",
     .cases = {{{3, 5}, {5, 4}}, {{1, 7}, {7, 1}}, {{2, 3, 4}, {2, 4, 5}}, {{2, 3, 4}, {4, 5}}},
     .run = [](const Inputs& in) { return matmul(in[0], in[1]); },
     .rejects = {{{3, 5}, {4, 5}}, {{5}, {5, 2}}, {{2, 3, 4}, {3, 4, 5}}},
     .large = {{{130, 150}, {150, 70}}, {{3, 33, 40}, {3, 40, 65}}},
     .close_f32 = false});

// ---- conversion to the shapes and strides that the kernel takes

Tensor kernels::flat_rows(const Tensor& t) {
  if (t.rank() == 2) return t;
  int64_t rows = 1;  // not numel / K: K may be 0
  for (int i = 0; i < t.rank() - 1; ++i) rows *= t.dim(i);
  return contiguous(t).view_as({rows, t.dim(-1)});
}

std::optional<MatrixLayout> matrix_layout(const Tensor& t) {
  const int64_t rows = t.dim(-2), columns = t.dim(-1);
  const int64_t row = t.strides()[-2], column = t.strides()[-1];
  if (t.numel() <= 1) return {{false, std::max<int64_t>(columns, 1)}};  // whatever its strides are
  if (column == 1 && (rows == 1 || row >= columns)) return {{false, std::max(row, columns)}};
  if (row == 1 && (columns == 1 || column >= rows)) return {{true, std::max(column, rows)}};
  return std::nullopt;
}

// One matrix for a whole batch gets stride 0.
Tensor kernels::batched(const Tensor& t, int64_t batch) {
  const Tensor fit = matrix_layout(t) ? t : contiguous(t);
  const int64_t rows = t.dim(-2), columns = t.dim(-1);
  if (t.rank() == 2)
    return fit.view({batch, rows, columns}, {0, fit.strides()[0], fit.strides()[1]}, fit.offset());
  if (t.rank() == 3) return fit;
  return contiguous(fit).view_as({batch, rows, columns});
}

void kernels::multiply(const Tensor& y, const Tensor& a, const Tensor& b, Into into, Slot* slot) {
  if (y.numel() == 0) return;
  const bool one_matrix = b.rank() == 2 && a.rank() > 2;
  const Tensor a_ = one_matrix ? flat_rows(a) : a;
  const int64_t M = a_.dim(-2), N = b.dim(-1), batch = y.numel() / (M * N);
  Slot cache = slot ? *slot : Slot();
  y.raise_version();
  const Tensor y3 = y.view_as({batch, M, N});
  const Tensor a3 = batched(a_, batch), b3 = batched(b, batch);
  const bool chosen = y.device() == Device::cpu && y.dtype() == DType::f32;
  const Blas blas = chosen ? kernel_options().blas : Blas::onednn;
  if (blas == Blas::openblas && a.dim(-1) > 0) return openblas::multiply(y3, a3, b3, into);
  if (blas == Blas::eigen) return kernels::matmul.plain(y3, a3, b3, into, cache);
  kernels::matmul(y3, a3, b3, into, cache);
}

Tensor kernels::product(const Tensor& a, const Tensor& b, Slot* slot) {
  const Tensor y = empty(product_shape(a.shape(), b.shape()), a);
  multiply(y, a, b, Into::overwrite, slot);
  return y;
}

// ---- CPU: Eigen on one thread per block of y; the blocks do not depend on the number of threads

namespace {
template <class T> using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using AnyStride = Eigen::Stride<Eigen::Dynamic, 1>;
template <class T> using EigenRows = Eigen::Map<Matrix<T>, 0, AnyStride>;
template <class T> using ConstRows = Eigen::Map<const Matrix<T>, 0, AnyStride>;

// Passes the matrix to fn as Eigen handles it best: contiguous rows, or the transpose of such.
template <class T, class Fn>
void with_matrix(const T* data, int64_t rows, int64_t columns, const MatrixLayout& layout,
                 const Fn& fn) {
  if (layout.transposed) {
    fn(ConstRows<T>(data, columns, rows, AnyStride(layout.stride, 1)).transpose());
  } else {
    fn(ConstRows<T>(data, rows, columns, AnyStride(layout.stride, 1)));
  }
}
}  // namespace

template <class T>
void kernels::multiply_here(const Rows<T>& y, const T* a, const MatrixLayout& a_layout, const T* b,
                            const MatrixLayout& b_layout, int64_t depth, Into into) {
  with_matrix(a, y.count, depth, a_layout, [&](const auto& a_) {
    with_matrix(b, depth, y.length, b_layout, [&](const auto& b_) {
      EigenRows<T> target(y.at, y.count, y.length, AnyStride(y.stride, 1));
      if (into == Into::add) {
        target.noalias() += a_ * b_;
      } else {
        target.noalias() = a_ * b_;
      }
    });
  });
}
template void kernels::multiply_here(const Rows<float>&, const float*, const MatrixLayout&,
                                     const float*, const MatrixLayout&, int64_t, Into);
template void kernels::multiply_here(const Rows<double>&, const double*, const MatrixLayout&,
                                     const double*, const MatrixLayout&, int64_t, Into);

static void matmul_cpu(const Tensor& y, const Tensor& a, const Tensor& b, Into into, Slot&) {
  constexpr int64_t kRows = 128, kColumns = 32;
  const int64_t M = y.dim(1), N = y.dim(2), depth = a.dim(2);
  const int64_t tall = ceil_div(M, kRows), wide = ceil_div(N, kColumns);
  const MatrixLayout a_layout = *matrix_layout(a), b_layout = *matrix_layout(b);
  visit_float(y.dtype(), [&]<class T>(T) {
    parallel_for(y.dim(0) * tall * wide, 1, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t batch = block / (tall * wide), m = block / wide % tall * kRows;
        const int64_t n = block % wide * kColumns;
        kernels::multiply_here<T>(
            {y.ptr<T>() + batch * y.strides()[0] + m * y.strides()[1] + n, std::min(kRows, M - m),
             std::min(kColumns, N - n), y.strides()[1]},
            a.ptr<T>() + batch * a.strides()[0] + m * a.strides()[1], a_layout,
            b.ptr<T>() + batch * b.strides()[0] + n * b.strides()[2], b_layout, depth, into);
      }
    });
  });
  trace::count<"blas.eigen">(y.dim(0));
  y.raise_version();
}
static const bool cpu = kernels::matmul.on(Device::cpu, in_f32<matmul_cpu>);

}  // namespace bellows
