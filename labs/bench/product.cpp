#include "labs/bench/product.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include "core/device/parallel.h"
#include "core/tensor/copy.h"
#include "core/tensor/rng.h"
#include "ops/matmul/matmul.h"

namespace bellows {

const std::vector<Precision>& precisions(Device device) {
  static const std::vector<Precision> cpu = [] {
    std::vector<Precision> all = {
        {.name = "FP32", .dtype = DType::f32, .result = 0x1p-24},
        {.name = "FP64", .dtype = DType::f64, .sum = 0x1p-53, .result = 0x1p-53}};
    if (__builtin_cpu_supports("avx512bf16"))
      all.push_back({.name = "BF16", .dtype = DType::bf16, .sum = 0x1p-22, .result = 0x1p-8});
    return all;
  }();
  // Tensor Cores truncate: 10 bits of a TF32 element's mantissa remain, and sums lose one bit.
  static const std::vector<Precision> gpu = {
      {.name = "FP32", .dtype = DType::f32, .result = 0x1p-24},
      {.name = "TF32", .dtype = DType::f32, .tf32 = true, .read = 0x1p-10, .sum = 0x1p-22},
      {.name = "FP16", .dtype = DType::f16, .sum = 0x1p-22, .result = 0x1p-11},
      {.name = "BF16", .dtype = DType::bf16, .sum = 0x1p-22, .result = 0x1p-8}};
  return device == Device::cpu ? cpu : gpu;
}

// Returns random values of variance 1: zeros draw less power (so the clock is higher) and verify
// nothing. Normal values would take a CPU longer to draw than to multiply.
static Tensor random(const Shape& shape, DType dtype, Device device, uint64_t site) {
  const Tensor t(shape, DType::f32, device);
  const double most = std::sqrt(3.0);
  fill_uniform(t, -most, most, {.seed = 1, .site = site});
  return cast(t, dtype);
}

static Shape shape_of_product(Shape a, const Shape& b) {
  a[-1] = b[-1];
  return a;
}

Product::Product(const Precision& precision, const Shape& a, const Shape& b, Device device)
    : precision(precision),
      a(random(a, precision.dtype, device, 1)),
      b(random(b, precision.dtype, device, 2)),
      y(shape_of_product(a, b), precision.dtype, device) {}

void Product::run(Blas blas) const {
  const Kernels use({.vendor = true, .tf32 = precision.tf32, .blas = blas});
  kernels::multiply(y, a, b);
}

double Product::flop() const { return 2.0 * double(y.numel()) * double(b.dim(0)); }

// Returns rows [first, first + count) of `t`, with all leading axes folded, on the host in f64.
static Tensor rows_on_host(const Tensor& t, int64_t first, int64_t count) {
  const int64_t columns = t.dim(-1);
  const Tensor rows = t.view({count, columns}, {columns, 1}, t.offset() + first * columns);
  return cast(to(Device::cpu, contiguous(rows)), DType::f64);
}

namespace {
// A row of the product in f64: sums of the terms and of their squares, by column.
struct Reference {
  Tensor a;  // (1, K)
  std::vector<double> value, squares;
};
}  // namespace

static std::vector<Reference> references(const Product& p, const std::vector<int64_t>& rows) {
  constexpr int64_t kBlock = 256;
  const int64_t depth = p.b.dim(0), columns = p.b.dim(1);
  const std::vector<double> zeros(columns);
  std::vector<Reference> all;
  for (const int64_t row : rows) all.push_back({rows_on_host(p.a, row, 1), zeros, zeros});
  for (int64_t first = 0; first < depth; first += kBlock) {
    const Tensor block = rows_on_host(p.b, first, std::min(kBlock, depth - first));
    parallel_for(columns, 512, [&](int64_t begin, int64_t end) {
      for (Reference& row : all)
        for (int64_t k = 0; k < block.dim(0); ++k) {
          const double left = row.a.ptr<double>()[first + k];
          const double* const b = block.ptr<double>() + k * columns;
          for (int64_t n = begin; n < end; ++n) {
            const double term = left * b[n];
            row.value[n] += term;
            row.squares[n] += term * term;
          }
        }
    });
  }
  return all;
}

// Rounding bound: eight standard deviations of a sum of K products with independent roundings.
static double bound(const Precision& p, double value, double squares, int64_t depth) {
  const double deviation = std::sqrt(squares);
  return 8 * (deviation * (p.read + p.sum * std::sqrt(double(depth))) + p.result * std::abs(value));
}

double worst_error(const Product& product, const std::vector<int64_t>& rows) {
  const std::vector<Reference> right = references(product, rows);
  double worst = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Tensor row = rows_on_host(product.y, rows[i], 1);
    const auto& [a, value, squares] = right[i];
    for (size_t n = 0; n < value.size(); ++n) {
      const double error = std::abs(row.ptr<double>()[n] - value[n]) /
                           bound(product.precision, value[n], squares[n], a.numel());
      if (!std::isfinite(error)) return std::numeric_limits<double>::infinity();
      worst = std::max(worst, error);
    }
  }
  return worst;
}

}  // namespace bellows
