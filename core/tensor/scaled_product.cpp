#include "core/tensor/scaled_product.h"
#include <Eigen/Core>
#include "core/base/round.h"
#include "core/device/parallel.h"
#include "core/tensor/in_f32.h"

namespace bellows {

template <class T> using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Rows of y are split into tiles of fixed size, so the bits do not depend on the number of threads.
static void product_cpu(const Tensor& y, const Tensor& base, const Tensor& a, const Tensor& b,
                        const Scales& scales, Slot&) {
  constexpr int64_t kRows = 64;
  const int64_t M = y.dim(1), N = y.dim(2), K = a.dim(2), tall = ceil_div(M, kRows);
  const bool transposed = b.strides()[2] != 1 && N > 1;
  visit_float(y.dtype(), [&]<class T>(T) {
    parallel_for(y.dim(0) * tall, 1, [&](int64_t tile, int64_t) {
      const int64_t z = tile / tall, first = tile % tall * kRows, rows = std::min(kRows, M - first);
      const int64_t at = z * M * N + first * N;
      Eigen::Map<Matrix<T>> out(y.ptr<T>() + at, rows, N);
      const Eigen::Map<Matrix<T>> left(a.ptr<T>() + z * M * K + first * K, rows, K);
      T* const right = b.ptr<T>() + z * K * N;
      if (transposed)
        out.noalias() = T(scales.product) * (left * Eigen::Map<Matrix<T>>(right, N, K).transpose());
      else
        out.noalias() = T(scales.product) * (left * Eigen::Map<Matrix<T>>(right, K, N));
      if (base.defined())
        out += T(scales.base) * Eigen::Map<Matrix<T>>(base.ptr<T>() + at, rows, N);
    });
  });
  y.raise_version();
}

static const bool cpu = kernels::scaled_product.on(Device::cpu, in_f32<product_cpu>);

}  // namespace bellows
