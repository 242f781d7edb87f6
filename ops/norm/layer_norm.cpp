#include "ops/norm/layer_norm.h"
#include <cmath>
#include "autograd/amp.h"
#include "autograd/backward.h"
#include "core/device/parallel.h"
#include "ops/base/map.h"
#include "ops/elementwise.h"

namespace bellows {

static Tensor composed(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const ReduceOptions last{.axes = {-1}, .keepdim = true};
  const Tensor centered = sub(x, mean(x, last));
  const Tensor deviation = sqrt(add(mean(square(centered), last), eps));
  return add(mul(div(centered, deviation), weight), bias);
}

Tensor layer_norm(const Tensor& x_, const Tensor& weight, const Tensor& bias, double eps,
                  Impl impl) {
  const Tensor x = amp::full(x_);
  const Shape& shape = x.shape();
  CHECK(shape.rank() > 0 && weight.shape() == Shape{shape[-1]} && bias.shape() == weight.shape(),
        "layer_norm: x ", shape, " needs weight and bias as long as its last axis, got ",
        weight.shape(), " and ", bias.shape());
  if (impl == Impl::composed) return composed(x, weight, bias, eps);
  const int64_t D = shape[-1], N = x.numel() / std::max<int64_t>(D, 1);
  const NormLayer layer{weight, bias, {}, {.eps = eps}};
  const Tensor rows = contiguous(x).view_as({N, D});
  const Tensor statistics({2, N}, precise(x.dtype()), x.device());
  const Tensor y = kernels::layer_norm(rows, normalization(statistics, layer)).view_as(shape);
  if (!will_record(x, weight, bias)) return y;
  return record("layer_norm", y, {x, weight, bias},
                [saved = SavedNorm(rows, statistics, layer), D](const Tensor& dy) {
                  const Tensor g = contiguous(dy).view_as(saved.x().shape());
                  const auto [dx, parts] = kernels::layer_norm_backward(g, saved.x(), saved.norm());
                  const Tensor sums = kernels::sum(parts, {1, 2, D}, 1);
                  const Tensor dw = grad_out(saved.weight()), db = grad_out(saved.bias());
                  copy_into(dw, sums.view({D}, {1}, 0));
                  copy_into(db, sums.view({D}, {1}, D));
                  return Grads{dx.view_as(dy.shape()), dw, db};
                });
}

template <Impl impl> static Tensor run_with(const Inputs& in) {
  return layer_norm(in[0], in[1], in[2], 1e-5, impl);
}
static const AddOp spec(
    {.name = "layer_norm",
     .math = "(x - mean) / sqrt(var + eps) * weight + bias along the last axis",
     .cases = {{{6}, {6}, {6}}, {{3, 5}, {5}, {5}}, {{2, 3, 4, 16}, {16}, {16}}},
     .run = run_with<Impl::fused>,
     .rejects = {{{3, 5}, {4}, {5}}, {{3, 5}, {5}, {3}}},
     .large = {{{512, 384}, {384}, {384}}, {{40, 2500}, {2500}, {2500}}},
     .composed = run_with<Impl::composed>,
     .close_f32 = false});

// ---- CPU: rows stay in the first-level cache between the passes over them

static constexpr int64_t kChunk = 32;  // rows per chunk, which share partial sums

template <class A> static A rstd(A var, double eps) { return A(1 / std::sqrt(var + eps)); }

// Calls fn(n) for each row, compiled for the widest vectors. The compiler must assume that a store
// changes anything reached by reference, so fn is copied and captures values ([=]).
template <class S, class Fn> static void for_rows(int64_t rows, const Fn& fn) {
  parallel_for(rows, kChunk, [&](int64_t begin, int64_t end) {
    in_wide_loop<S>([&]() __attribute__((always_inline)) {
      const Fn own = fn;
      for (int64_t n = begin; n < end; ++n) own(n);
    });
  });
}

static Tensor forward_cpu(const Tensor& x, const kernels::Normalization& norm) {
  const int64_t N = x.dim(0), D = x.dim(1);
  const double eps = norm.eps;
  const Tensor y = empty(x.shape(), x);
  visit_stored(x.dtype(), [&]<class S>(S) {
    using A = Acc<S>;
    const S* const x_ = x.ptr<S>();
    S* const y_ = y.ptr<S>();
    const A *const weight = norm.weight.ptr<A>(), *const bias = norm.bias.ptr<A>();
    A *const means = norm.statistics.ptr<A>(), *const vars = means + N;
    for_rows<S>(
        N, [=](int64_t n) __attribute__((always_inline)) {
          const S* const from = x_ + n * D;
          S* const to = y_ + n * D;
          A sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
          for (int64_t j = 0; j < D; ++j) sum += A(from[j]);
          const A mean = sum / A(D);
#pragma omp simd reduction(+ : squares)
          for (int64_t j = 0; j < D; ++j) squares += (A(from[j]) - mean) * (A(from[j]) - mean);
          const A var = squares / A(D), scale = rstd(var, eps);
#pragma omp simd
          for (int64_t j = 0; j < D; ++j)
            to[j] = S((A(from[j]) - mean) * scale * weight[j] + bias[j]);
          means[n] = mean;
          vars[n] = var;
        });
  });
  return y;
}

static kernels::LayerNormGrads backward_cpu(const Tensor& dy, const Tensor& x,
                                            const kernels::Normalization& norm) {
  const int64_t N = x.dim(0), D = x.dim(1);
  const double eps = norm.eps;
  const Tensor dx = empty(x.shape(), x);
  const Tensor parts = zeros({ceil_div(N, kChunk), 2, D}, norm.weight.dtype());
  visit_stored(x.dtype(), [&]<class S>(S) {
    using A = Acc<S>;
    const S *const x_ = x.ptr<S>(), *const dy_ = dy.ptr<S>();
    S* const dx_ = dx.ptr<S>();
    A* const sums = parts.ptr<A>();
    const A *const weight = norm.weight.ptr<A>(), *const means = norm.statistics.ptr<A>();
    for_rows<S>(
        N, [=](int64_t n) __attribute__((always_inline)) {
          const S *const from = x_ + n * D, *const dy = dy_ + n * D;
          S* const to = dx_ + n * D;
          A *const dw = sums + n / kChunk * 2 * D, *const db = dw + D;
          const A mean = means[n], scale = rstd(means[N + n], eps);
          A g_sum = 0, gz_sum = 0;
#pragma omp simd reduction(+ : g_sum, gz_sum)
          for (int64_t j = 0; j < D; ++j) {
            const A z = (A(from[j]) - mean) * scale, g = A(dy[j]) * weight[j];
            dw[j] += A(dy[j]) * z;
            db[j] += A(dy[j]);
            g_sum += g;
            gz_sum += g * z;
          }
          const A shift = g_sum / A(D), slope = gz_sum / A(D);
#pragma omp simd
          for (int64_t j = 0; j < D; ++j) {
            const A z = (A(from[j]) - mean) * scale;
            to[j] = S((A(dy[j]) * weight[j] - shift - z * slope) * scale);
          }
        });
  });
  return {dx, parts};
}

static const bool cpu = kernels::layer_norm.on(Device::cpu, forward_cpu) &&
                        kernels::layer_norm_backward.on(Device::cpu, backward_cpu);

}  // namespace bellows
