// batch_norm forward on the CPU: one pass for the batch's statistics, another one for y.
#include "ops/base/functors.h"
#include "ops/norm/batch_norm_cpu.h"

namespace bellows {

using namespace batch_norm_cpu;

// Each part subtracts its first element, which avoids cancellation between large squares. Parts are
// merged by the rule of Chan, Golub and LeVeque.
static Tensor statistics_cpu(const Tensor& x_, const RunningUpdate& running) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_), statistics({2, rows.channels}, precise(x.dtype()));
  visit_stored(x.dtype(), [&]<class S>(S) {
    using A = Acc<S>;
    const S* const at = x.ptr<S>();
    const ChannelSums<A> sums(
        rows, [=]<int L, bool inner>(int64_t row, int64_t begin,
                                     int64_t j) __attribute__((always_inline)) {
          const S* const pivot = at + (inner ? begin : row) * rows.length;
          const Lanes<A, L> shift = inner ? load<L>(pivot + j) : Lanes<A, L>{} + A(*pivot);
          const Lanes<A, L> d = load<L>(at + row * rows.length + j) - shift;
          return Terms<A, L>{d, d * d};
        });
    parallel_for(rows.channels, kChannels, [&](int64_t begin, int64_t end) {
      double n = 0, mean[kChannels] = {}, squares[kChannels] = {};
      for (int64_t p = 0; p < rows.parts; ++p) {
        const double m = double(rows.elements(p)), share = m / (n + m), inverse = 1 / m;
        for (int64_t c = begin; c < end; ++c) {
          const int64_t i = p * rows.channels + c;
          const double shift =
              at[rows.inner ? p * rows.per_part * rows.length + c : i * rows.length];
          const double s = sums.first[i], delta = shift + s * inverse - mean[c - begin];
          squares[c - begin] += sums.second[i] - s * s * inverse + delta * delta * n * share;
          mean[c - begin] += delta * share;
        }
        n += m;
      }
      for (int64_t c = begin; c < end; ++c) {
        statistics.ptr<A>()[c] = A(mean[c - begin]);
        statistics.ptr<A>()[rows.channels + c] = A(std::max(0.0, squares[c - begin] / n));
      }
    });
  });
  kernels::update_running(statistics, running);
  return statistics;
}

static void update_running_cpu(const Tensor& statistics, const RunningUpdate& running) {
  const Tensor &mean = running.mean, &var = running.var;
  if (!mean.defined()) return;
  if (running.batches.defined()) ++*running.batches.ptr<int64_t>();
  const int64_t C = mean.numel();
  visit_float(statistics.dtype(), [&]<class A>(A) {
    visit_float(mean.dtype(), [&]<class R>(R) {
      const A* const batch = statistics.ptr<A>();
      for (int64_t c = 0; c < C; ++c) {
        R &m = mean.ptr<R>()[c], &v = var.ptr<R>()[c];
        m = R(kernels::moved(m, batch[c], running.momentum));
        v = R(kernels::moved(v, batch[C + c], running.momentum, running.unbiased));
      }
    });
  });
}

// With gelu there is neither a residual nor relu.
template <bool gelu>
static kernels::Normalized forward_cpu(const Tensor& x_, const Tensor& statistics,
                                       const Tensor& weight, const Tensor& bias,
                                       const Tensor& residual_, bool relu, double eps) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_), y = rows.like(x_);
  const Tensor residual = residual_.defined() ? rows.ordered(residual_) : residual_;
  const Tensor bits = relu ? Tensor({rows.count, rows.bytes_of_bits()}, DType::u8) : Tensor();
  visit_stored(x.dtype(), [&]<class S>(S) {
    using A = Acc<S>;
    const A* const mean = statistics.ptr<A>();
    const Tensor scale = scales_of<A>(statistics, weight, eps);
    for_rows<A>(
        rows, [&]<int L, bool inner>(int64_t row) __attribute__((always_inline)) {
          const int64_t c = rows.first_channel(row), first = row * rows.length;
          const A *const m = mean + c, *const s = scale.ptr<A>() + c, *const b = bias.ptr<A>() + c;
          const S* const from = x.ptr<S>() + first;
          const S* const added = !gelu && residual.defined() ? residual.ptr<S>() + first : nullptr;
          S* const to = y.ptr<S>() + first;
          uint8_t* const line =
              !gelu && relu ? bits.ptr<uint8_t>() + row * rows.bytes_of_bits() : nullptr;
          along<L>(
              rows.length, [=]<int K>(int64_t j) __attribute__((always_inline)) {
                Lanes<A, K> v =
                    (load<K>(from + j) - of_channel<K, inner>(m, j)) * of_channel<K, inner>(s, j) +
                    of_channel<K, inner>(b, j);
                if constexpr (gelu)
                  v = each_lane<A, K>(
                      v,
                      [](A z) __attribute__((always_inline)) { return functors::Gelu::value(z); });
                if (added) v += load<K>(added + j);
                if (line) {
                  const auto off = v <= A(0);  // false for NaN
                  put_bits<K, MaskOf<A>>(line, j, ~off);
                  v = off ? Lanes<A, K>{} : v;
                }
                store<K>(to + j, v);
              });
        });
  });
  return {y, bits};
}

static Tensor gelu_cpu(const Tensor& x, const Tensor& statistics, const Tensor& weight,
                       const Tensor& bias, double eps) {
  return forward_cpu<true>(x, statistics, weight, bias, {}, false, eps).y;
}

static const bool cpu = kernels::channel_statistics.on(Device::cpu, statistics_cpu) &&
                        kernels::update_running.on(Device::cpu, update_running_cpu) &&
                        kernels::batch_norm.on(Device::cpu, forward_cpu<false>) &&
                        kernels::batch_norm_gelu.on(Device::cpu, gelu_cpu) &&
                        kernels::batch_norm_training.on(Device::cpu, kernels::batch_norm_in_steps);

}  // namespace bellows
