#include "core/tensor/foreach.h"
#include <cmath>
#include <cstring>
#include "core/device/parallel.h"
#include "core/tensor/copy.h"
#include "core/tensor/step_state.h"

namespace bellows {

static constexpr int64_t kChunk = 16384;

void fill(const Tensor& t, double value) {
  t.raise_version();
  kernels::fill(t, value);
}
void add_into(const Tensor& sum, const Tensor& t, double factor) {
  CHECK(sum.shape() == t.shape() && sum.dtype() == t.dtype(), "add_into: ", t.dtype(), " ",
        t.shape(), " into ", sum.dtype(), " ", sum.shape());
  sum.raise_version();
  kernels::add_into(sum, t, factor);
}

static void check_pairs(const char* op, TensorSpan a, TensorSpan b) {
  CHECK(a.size() == b.size(), op, ": lists of ", a.size(), " and ", b.size(), " tensors");
  for (size_t i = 0; i < a.size(); ++i)
    CHECK(a[i].shape() == b[i].shape() && a[i].dtype() == b[i].dtype() &&
              a[i].strides() == b[i].strides() && a[i].is_dense(),
          op, ": ", a[i].dtype(), " ", a[i].shape(), " with strides ", a[i].strides(), " beside ",
          b[i].dtype(), " ", b[i].shape(), " with strides ", b[i].strides());
}
void lerp_each(TensorSpan list, TensorSpan to, double share, const StepState* state) {
  check_pairs("lerp_each", list, to);
  if (list.empty()) return;
  for (const Tensor& t : list) t.raise_version();
  kernels::lerp_each(list, to, share, state);
}
void swap_each(TensorSpan a, TensorSpan b) {
  check_pairs("swap_each", a, b);
  if (a.empty()) return;
  for (const TensorSpan list : {a, b})
    for (const Tensor& t : list) t.raise_version();
  kernels::swap_each(a, b);
}
void copy_each(TensorSpan to, TensorSpan from, const StepState* only_if_skipped) {
  check_pairs("copy_each", to, from);
  if (to.empty()) return;
  for (const Tensor& t : to) t.raise_version();
  kernels::copy_each(to, from, only_if_skipped);
}

Tensor norm_of(TensorSpan list) {
  CHECK(!list.empty(), "norm_of: no tensors");
  const Tensor norm({}, DType::f32, list.front().device());
  kernels::norm_of(list, norm);
  return norm;
}

// ---- CPU

static void fill_cpu(const Tensor& t, double value) {
  CHECK(t.is_dense(), "fill: strides ", t.strides(), " have gaps");
  visit_dtype(t.dtype(), [&]<class T>(T) {
    T* const t_ = t.ptr<T>();
    parallel_for(t.numel(), kChunk,
                 [&](int64_t b, int64_t e) { std::fill(t_ + b, t_ + e, T(value)); });
  });
}

static void add_into_cpu(const Tensor& sum, const Tensor& t, double factor) {
  const bool same = sum.strides() == t.strides() && sum.is_dense();
  const Tensor other = same ? t : contiguous(t);
  CHECK(same || sum.is_contiguous(), "add_into: the sum has strides ", sum.strides());
  visit_stored(t.dtype(), [&]<class T>(T) {
    using A = Acc<T>;
    T* const sum_ = sum.ptr<T>();
    const T* const t_ = other.ptr<T>();
    parallel_for(t.numel(), kChunk, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) sum_[i] = T(A(sum_[i]) + A(factor) * A(t_[i]));
    });
  });
}

// Calls fn(a, b, n) for chunks of n elements of each pair.
template <class Fn> static void for_pairs(TensorSpan a, TensorSpan b, const Fn& fn) {
  for (size_t i = 0; i < a.size(); ++i)
    visit_stored(a[i].dtype(), [&]<class T>(T) {
      T *const a_ = a[i].ptr<T>(), *const b_ = b[i].ptr<T>();
      parallel_for(a[i].numel(), kChunk,
                   [&](int64_t begin, int64_t end) { fn(a_ + begin, b_ + begin, end - begin); });
    });
}
static void lerp_each_cpu(TensorSpan list, TensorSpan to, double share, const StepState* state) {
  if (state && state->found_inf) return;
  for_pairs(list, to, [share]<class T>(T* t, const T* other, int64_t n) {
    using A = Acc<T>;
    for (int64_t i = 0; i < n; ++i) t[i] = T(std::fma(A(share), A(other[i]) - A(t[i]), A(t[i])));
  });
}
static void swap_each_cpu(TensorSpan a, TensorSpan b) {
  for_pairs(a, b, []<class T>(T* x, T* y, int64_t n) { std::swap_ranges(x, x + n, y); });
}
static void copy_each_cpu(TensorSpan to, TensorSpan from, const StepState* only_if_skipped) {
  if (only_if_skipped && !only_if_skipped->found_inf) return;
  for (size_t i = 0; i < to.size(); ++i)
    if (from[i].nbytes()) std::memcpy(to[i].bytes(), from[i].bytes(), from[i].nbytes());
}

static void norm_of_cpu(TensorSpan list, const Tensor& norm) {
  double squares = 0;
  for (const Tensor& t : list) {
    CHECK(t.is_dense(), "norm_of: strides ", t.strides(), " have gaps");
    squares += visit_stored(t.dtype(), [&]<class T>(T) {
      const T* const t_ = t.ptr<T>();
      return parallel_sum(t.numel(), kChunk,
                          [&](int64_t b, int64_t e) { return sum_of_squares(t_ + b, e - b); });
    });
  }
  *norm.ptr<float>() = static_cast<float>(std::sqrt(squares));
}

static const bool cpu = kernels::fill.on(Device::cpu, fill_cpu) &&
                        kernels::add_into.on(Device::cpu, add_into_cpu) &&
                        kernels::lerp_each.on(Device::cpu, lerp_each_cpu) &&
                        kernels::swap_each.on(Device::cpu, swap_each_cpu) &&
                        kernels::copy_each.on(Device::cpu, copy_each_cpu) &&
                        kernels::norm_of.on(Device::cpu, norm_of_cpu);

}  // namespace bellows
