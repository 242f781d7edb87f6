#include "ops/norm/batch_norm_gelu.h"
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "ops/base/work.h"
#include "ops/elementwise.h"
#include "ops/norm/batch_norm_cpu.h"

namespace bellows {

// ---- the op

static Tensor normalize(const Tensor& x, const Tensor& weight_, const Tensor& bias_,
                        const RunningStatistics& running, const BatchNormOptions& options) {
  const char* const op = "batch_norm_gelu";
  check_norm(op, x.shape(), weight_, bias_, running, options);
  count_layout(x);
  const DType dtype = precise(x.dtype());
  const Tensor weight = contiguous(cast(weight_, dtype)), bias = contiguous(cast(bias_, dtype));
  const bool training = options.training;
  const Tensor statistics =
      training ? kernels::channel_statistics(x, update_of(running, options.momentum, unbiased(x)))
               : running_statistics(x, running);
  const Tensor y = kernels::batch_norm_gelu(x, statistics, weight, bias, options.eps);
  if (!will_record(x, weight_, bias_)) return y;
  return record(op, y, {x, weight_, bias_},
                [x = Saved(x), statistics = Saved(statistics), weight = Saved(weight_),
                 bias = Saved(bias_), eps = options.eps, training](const Tensor& dy) {
                  const DType dtype = precise(x().dtype());
                  const Tensor w = contiguous(cast(weight(), dtype));
                  const Tensor b = contiguous(cast(bias(), dtype));
                  const Tensor dw = cast(grad_out(weight()), dtype);
                  const Tensor db = cast(grad_out(bias()), dtype);
                  const Tensor dz =
                      kernels::batch_norm_gelu_backward(dy, x(), statistics(), w, b, eps, dw, db);
                  const Tensor none;  // constant statistics pass on no gradient
                  const Tensor dx =
                      kernels::batch_norm_backward_x(dz, x(), statistics(), w, training ? dw : none,
                                                     training ? db : none, none, eps);
                  return Grads{dx, cast(dw, weight().dtype()), cast(db, bias().dtype())};
                });
}

Tensor batch_norm_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const RunningStatistics& running, const BatchNormOptions& options, Impl impl,
                       Slot* slot) {
  if (impl == Impl::composed) return gelu(batch_norm(x, weight, bias, running, options, slot));
  static trace::Counter& fused = trace::counter("fuse.norm_act");
  fused.add();
  return normalize(x, weight, bias, running, options);
}

// ---- CPU

namespace {
using namespace batch_norm_cpu;

// F of each lane, by a loop that the compiler turns into vectors: formulas take single values.
template <class A, int L, class F>
[[gnu::always_inline]] inline Lanes<A, L> each_lane(Lanes<A, L> z, const F& formula) {
  A values[L];
  store<L>(values, z);
  for (int i = 0; i < L; ++i) values[i] = formula(values[i]);
  return load<L>(values);
}

// weight / sqrt(var + eps) of each channel
template <class A> Tensor scales_of(const Tensor& statistics, const Tensor& weight, double eps) {
  const int64_t C = weight.numel();
  const Tensor scales({C}, weight.dtype());
  for (int64_t c = 0; c < C; ++c)
    scales.ptr<A>()[c] = weight.ptr<A>()[c] * inverse_deviation(statistics.ptr<A>()[C + c], eps);
  return scales;
}

// Computes z = (x - mean) * scale + bias, from the parameters of the channels of a row.
template <class A> struct RowNorm {
  RowNorm from(int64_t channel) const { return {mean + channel, scale + channel, bias + channel}; }
  template <int L, bool inner>
  [[gnu::always_inline]] Lanes<A, L> z(Lanes<A, L> centered, int64_t j) const {
    return centered * of_channel<L, inner>(scale, j) + of_channel<L, inner>(bias, j);
  }
  const A *mean, *scale, *bias;
};
}  // namespace

static Tensor forward_cpu(const Tensor& x_, const Tensor& statistics, const Tensor& weight,
                          const Tensor& bias, double eps) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_), y = rows.like(x_);
  visit_stored(x.dtype(), [&]<class S>(S) {
    using A = Acc<S>;
    const Tensor scales = scales_of<A>(statistics, weight, eps);
    const RowNorm<A> all{statistics.ptr<A>(), scales.ptr<A>(), bias.ptr<A>()};
    for_rows<A>(
        rows, [&]<int L, bool inner>(int64_t row) __attribute__((always_inline)) {
          const RowNorm<A> norm = all.from(rows.first_channel(row));
          const S* const from = x.ptr<S>() + row * rows.length;
          S* const to = y.ptr<S>() + row * rows.length;
          along<L>(
              rows.length, [=]<int K>(int64_t j) __attribute__((always_inline)) {
                const Lanes<A, K> d = load<K>(from + j) - of_channel<K, inner>(norm.mean, j);
                store<K>(to + j, each_lane<A, K>(
                                     norm.template z<K, inner>(d, j),
                                     [](A z) __attribute__((always_inline)) {
                                       return functors::Gelu::value(z);
                                     }));
              });
        });
  });
  return y;
}

static Tensor backward_cpu(const Tensor& dy_, const Tensor& x_, const Tensor& statistics,
                           const Tensor& weight, const Tensor& bias, double eps, const Tensor& dw,
                           const Tensor& db) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_), dy = rows.ordered(dy_), dz = rows.like(x_);
  visit_stored(x.dtype(), [&]<class S>(S) {
    using A = Acc<S>;
    const Tensor scales = scales_of<A>(statistics, weight, eps);
    const RowNorm<A> all{statistics.ptr<A>(), scales.ptr<A>(), bias.ptr<A>()};
    const S *const from = x.ptr<S>(), *const incoming = dy.ptr<S>();
    S* const to = dz.ptr<S>();
    const ChannelSums<A> sums(
        rows, [=]<int L, bool inner>(int64_t row, int64_t,
                                     int64_t j) __attribute__((always_inline)) {
          const RowNorm<A> norm = all.from(rows.first_channel(row));
          const int64_t i = row * rows.length + j;
          const Lanes<A, L> d = load<L>(from + i) - of_channel<L, inner>(norm.mean, j);
          const Lanes<A, L> slope = each_lane<A, L>(
              norm.template z<L, inner>(d, j),
              [](A z) __attribute__((always_inline)) { return functors::Gelu::slope(z); });
          const Lanes<A, L> exact = load<L>(incoming + i) * slope;
          store<L>(to + i, exact);
          // In 16 bits as rounded, because the pass for dx reads that.
          const Lanes<A, L> g = std::is_same_v<S, A> ? exact : load<L>(to + i);
          return Terms<A, L>{g, g * d};
        });
    fold_gradients(rows, sums, statistics, eps, dw, db);
  });
  return dz;
}

static const bool cpu = kernels::batch_norm_gelu.on(Device::cpu, forward_cpu) &&
                        kernels::batch_norm_gelu_backward.on(Device::cpu, backward_cpu);

// ---- specs

// Inputs: x, weight, bias.
static OpFn run_with(Impl impl, bool training) {
  return [=](const Inputs& in) {
    const Tensor& x = in[0];
    const DType dtype = precise(x.dtype());
    const RunningStatistics running{full({x.dim(1)}, 0.25, dtype, x.device()),
                                    full({x.dim(1)}, 2, dtype, x.device())};
    return batch_norm_gelu(x, in[1], in[2], running, {.training = training}, impl);
  };
}

// Forward reads x twice and writes y. Backward reads x and dy and writes dz, then reads x and dz
// and writes dx.
static const AddWork work("batch_norm_gelu", [](const RecordedOp& op) -> OpWork {
  const double x = result_bytes(op);
  return {{0, 3 * x}, {0, 6 * x}};
});

static AddOp spec(const char* variant, bool training, std::vector<Shapes> cases,
                  std::vector<Shapes> rejects, std::vector<Shapes> large) {
  return AddOp({.name = "batch_norm_gelu",
                .math = "y = gelu(batch_norm(x))",
                .cases = std::move(cases),
                .run = run_with(Impl::fused, training),
                .rejects = std::move(rejects),
                .variant = variant,
                .large = std::move(large),
                .composed = run_with(Impl::composed, training),
                .close_f32 = false});
}
static const AddOp specs[] = {
    spec("", true, {{{3, 5, 4, 3}, {5}, {5}}, {{6, 3}, {3}, {3}}, {{2, 16, 1, 2}, {16}, {16}}},
         {{{3, 5, 4}, {5}, {5}}, {{3, 5, 4, 3}, {5}, {3}}, {{1, 5}, {5}, {5}}},
         {{{9, 48, 15, 14}, {48}, {48}}}),
    spec("evaluation", false, {{{3, 5, 4, 3}, {5}, {5}}}, {}, {}),
};

}  // namespace bellows
