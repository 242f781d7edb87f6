#include "ops/batch_norm.h"
#include <cmath>
#include "autograd/backward.h"
#include "autograd/recompute.h"
#include "core/copy.h"
#include "core/foreach.h"
#include "core/parallel.h"
#include "core/trace.h"
#include "ops/elementwise.h"
#include "ops/lanes.h"
#include "ops/layout.h"

namespace bellows {

// ---- the ops

DType precise(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

void check_norm(const char* op, const Shape& x, const Tensor& weight, const Tensor& bias,
                const RunningStatistics& running, const BatchNormOptions& options) {
  CHECK(x.rank() == 4 || x.rank() == 2, op, ": needs x (N, C) or (N, C, H, W), got ", x);
  const Shape channels{x[1]};
  for (const Tensor& t : {weight, bias, running.mean, running.var})
    CHECK(t.shape() == channels, op, ": x ", x, " needs weight, bias and running statistics of ",
          "shape ", channels, ", got ", t.shape());
  CHECK(!options.training || x.numel() > x[1], op, ": x ", x,
        " has one element a channel, which has no variance to train with");
}

void update_running(const RunningStatistics& running, const Tensor& x, const Tensor& statistics,
                    const BatchNormOptions& options) {
  if (replaying()) return;
  static trace::Counter& batches = trace::counter("norm.batches");
  batches.add();
  const double n = double(x.numel()) / double(x.dim(1));
  kernels::update_running(running.mean, running.var, running.batches, statistics, options.momentum,
                          n / (n - 1));
  for (const Tensor& t : {running.mean, running.var, running.batches})
    if (t.defined()) t.raise_version();
}

namespace kernels {

template <bool by_batch>
static NormalizedGrads backward_in_steps(const Tensor& dy, const Tensor& x,
                                         const Tensor& statistics, const Tensor& weight,
                                         const Tensor& bits, double eps, bool residual,
                                         const Tensor& dw, const Tensor& db, Slot&) {
  batch_norm_backward_w(dy, x, statistics, bits, eps, dw, db);
  const Tensor none;
  return batch_norm_backward_x(dy, x, statistics, weight, by_batch ? dw : none,
                               by_batch ? db : none, bits, eps, residual);
}

BatchNormPass batch_norm_in_steps(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                  const Tensor& residual, bool relu, double eps, Slot&) {
  const Tensor statistics = channel_statistics(x);
  const auto [y, bits] = batch_norm(x, statistics, weight, bias, residual, relu, eps);
  return {y, bits, statistics, backward_in_steps<true>};
}

// By the running statistics, which do not depend on x.
static BatchNormPass batch_norm_evaluation(const Tensor& x, const Tensor& weight,
                                           const Tensor& bias, const Tensor& residual, bool relu,
                                           double eps, const RunningStatistics& running) {
  const int64_t C = x.dim(1);
  const Tensor statistics({2, C}, precise(x.dtype()), x.device());
  copy_into(statistics.view({C}, {1}, 0), running.mean);
  copy_into(statistics.view({C}, {1}, C), running.var);
  const auto [y, bits] = batch_norm(x, statistics, weight, bias, residual, relu, eps);
  return {y, bits, statistics, backward_in_steps<false>};
}

}  // namespace kernels

static Tensor normalize(const char* op, const Tensor& x, const Tensor& residual,
                        const Tensor& weight_, const Tensor& bias_, bool relu,
                        const RunningStatistics& running, const BatchNormOptions& options,
                        Slot* slot) {
  check_norm(op, x.shape(), weight_, bias_, running, options);
  count_layout(x);
  const DType dtype = precise(x.dtype());
  const Tensor weight = contiguous(cast(weight_, dtype)), bias = contiguous(cast(bias_, dtype));
  Slot cache = slot ? *slot : Slot();
  const auto [y, bits, statistics, backward] =
      options.training
          ? kernels::batch_norm_training(x, weight, bias, residual, relu, options.eps, cache)
          : kernels::batch_norm_evaluation(x, weight, bias, residual, relu, options.eps, running);
  if (options.training) update_running(running, x, statistics, options);
  if (!will_record(x, residual, weight_, bias_)) return y;
  return record(
      op, y, {x, residual, weight_, bias_},
      [x = Saved(x), statistics = Saved(statistics), weight = Saved(weight_), bits = Saved(bits),
       bias = Saved(bias_), eps = options.eps, needs_residual = needs_grad(residual),
       backward = backward, cache](const Tensor& dy) mutable {
        const DType dtype = precise(x().dtype());
        const Tensor dw = cast(grad_out(weight()), dtype), db = cast(grad_out(bias()), dtype);
        const auto [dx, dresidual] =
            backward(dy, x(), statistics(), contiguous(cast(weight(), dtype)), bits(), eps,
                     needs_residual, dw, db, cache);
        return Grads{dx, dresidual, cast(dw, weight().dtype()), cast(db, bias().dtype())};
      });
}

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const RunningStatistics& running, const BatchNormOptions& options, Slot* slot) {
  return normalize("batch_norm", x, {}, weight, bias, false, running, options, slot);
}

Tensor batch_norm_relu(const Tensor& x, const Tensor& residual, const Tensor& weight,
                       const Tensor& bias, const RunningStatistics& running,
                       const BatchNormOptions& options, Impl impl, Slot* slot) {
  CHECK(!residual.defined() || (residual.shape() == x.shape() && residual.dtype() == x.dtype()),
        "batch_norm_relu: x is ", x.dtype(), " ", x.shape(), ", the residual ", residual.dtype(),
        " ", residual.shape());
  static trace::Counter &fused = trace::counter("fuse.norm_act"),
                        &fused_add = trace::counter("fuse.norm_add_act");
  if (impl == Impl::fused) (residual.defined() ? fused_add : fused).add();
  if (impl == Impl::fused)
    return normalize("batch_norm_relu", x, residual, weight, bias, true, running, options, slot);
  const Tensor y = batch_norm(x, weight, bias, running, options, slot);
  return relu(residual.defined() ? add(y, residual) : y);
}

// ---- specs

// Inputs: x, weight, bias and, of the fused op with one, the residual.
static OpFn run_with(bool relu, Impl impl, bool training) {
  return [=](const Inputs& in) {
    const Tensor& x = in[0];
    const DType dtype = precise(x.dtype());
    const RunningStatistics running{full({x.dim(1)}, 0.25, dtype, x.device()),
                                    full({x.dim(1)}, 2, dtype, x.device())};
    const BatchNormOptions options{.training = training};
    if (!relu) return batch_norm(x, in[1], in[2], running, options);
    return batch_norm_relu(x, in.size() > 3 ? in[3] : Tensor(), in[1], in[2], running, options,
                           impl);
  };
}
static AddOp spec(const char* name, const char* math, const char* variant, bool relu, bool training,
                  std::vector<Shapes> cases, std::vector<Shapes> rejects,
                  std::vector<Shapes> large) {
  return AddOp({.name = name,
                .math = math,
                .cases = std::move(cases),
                .run = run_with(relu, Impl::fused, training),
                .rejects = std::move(rejects),
                .variant = variant,
                .large = std::move(large),
                .composed = relu ? run_with(true, Impl::composed, training) : nullptr,
                .close_f32 = false});
}
static constexpr const char* kMath = "y = (x - mean) / sqrt(var + eps) * weight + bias";
static constexpr const char* kRelu = "y = relu(batch_norm(x))";
static constexpr const char* kAddRelu = "y = relu(batch_norm(x) + residual)";
static const AddOp specs[] = {
    spec("batch_norm", kMath, "", false, true,
         {{{3, 5, 4, 3}, {5}, {5}}, {{6, 3}, {3}, {3}}, {{2, 17, 1, 2}, {17}, {17}}},
         {{{3, 5, 4}, {5}, {5}},
          {{3, 5, 4, 3}, {4}, {5}},
          {{3, 5, 4, 3}, {5}, {3}},
          {{1, 5}, {5}, {5}}},
         {{{9, 48, 15, 14}, {48}, {48}}}),
    spec("batch_norm", kMath, "evaluation", false, false, {{{3, 5, 4, 3}, {5}, {5}}}, {}, {}),
    spec("batch_norm_relu", kRelu, "", true, true,
         {{{3, 5, 4, 3}, {5}, {5}}, {{6, 3}, {3}, {3}}, {{2, 16, 1, 2}, {16}, {16}}},
         {{{3, 5, 4}, {5}, {5}}}, {{{9, 48, 15, 14}, {48}, {48}}}),
    spec("batch_norm_relu", kRelu, "evaluation", true, false, {{{3, 5, 4, 3}, {5}, {5}}}, {}, {}),
    spec("batch_norm_relu", kAddRelu, "residual", true, true,
         {{{3, 5, 4, 3}, {5}, {5}, {3, 5, 4, 3}}, {{2, 8, 3, 3}, {8}, {8}, {2, 8, 3, 3}}},
         {{{3, 5, 4, 3}, {5}, {5}, {3, 5, 4, 2}}},
         {{{9, 48, 15, 14}, {48}, {48}, {9, 48, 15, 14}}}),
};

// ---- CPU: rows of elements that lie side by side

namespace {

// x as rows. `inner`: a row is a pixel and its elements are the channels (NHWC, and (N, C)); else
// it is the plane of one channel. Work is cut into parts of whole rows, whatever the threads; each
// has partial sums of its own for every channel that it meets.
struct Rows {
  explicit Rows(const Tensor& x)
      : nhwc(x.rank() == 4 && format_of(x) == kNHWC),
        inner(nhwc || x.rank() == 2 || x.dim(2) * x.dim(3) == 1),
        channels(x.dim(1)),
        length(inner ? channels : x.dim(2) * x.dim(3)),
        count(x.numel() / std::max<int64_t>(length, 1)),
        per_part(std::max<int64_t>(1, kPart / std::max<int64_t>(length, 1))),
        parts(inner ? (count + per_part - 1) / per_part : x.dim(0)) {}

  Tensor ordered(const Tensor& t) const {
    return t.rank() == 4 ? contiguous(t, format()) : contiguous(t);
  }
  Tensor like(const Tensor& x) const {
    return x.rank() == 4 ? Tensor(x.shape(), x.dtype(), x.device(), format()) : empty(x.shape(), x);
  }
  const MemoryFormat& format() const { return nhwc ? kNHWC : kNCHW; }

  int64_t first_channel(int64_t row) const { return inner ? 0 : row % channels; }
  // Where the partial sums of a row's channels are among all: parts x channels.
  int64_t partial(int64_t row) const { return inner ? row / per_part * channels : row; }
  // Elements of a channel in a part.
  int64_t elements(int64_t part) const {
    return inner ? std::min(per_part, count - part * per_part) : length;
  }
  int64_t bytes_of_bits() const { return (length + 7) / 8; }  // of a row

  static constexpr int64_t kPart = 32768;  // elements
  bool nhwc, inner;
  int64_t channels, length, count, per_part, parts;
};

// fn.operator()<L, inner>(row) for each row, a part by one thread.
template <class A, class Fn> void for_rows(const Rows& rows, const Fn& fn) {
  parallel_for(rows.count, rows.per_part, [&](int64_t begin, int64_t end) {
    in_lanes<A>([&]<int L>() __attribute__((always_inline)) {
      for (int64_t row = begin; row < end; ++row)
        if (rows.inner)
          fn.template operator()<L, true>(row);
        else
          fn.template operator()<L, false>(row);
    });
  });
}

// A number for each channel of a row: of elements j .. j + L, or of all of them.
template <int L, bool inner, class A>
[[gnu::always_inline]] inline Lanes<A, L> of_channel(const A* values, int64_t j) {
  if constexpr (inner)
    return lanes<L>(values + j);
  else
    return Lanes<A, L>{} + values[0];
}

// Two sums over the elements of each channel. terms.operator()<L, inner>(row, j) gives both
// summands of elements j .. j + L of a row.
template <class A> struct ChannelSums {
  template <class Terms>
  ChannelSums(const Rows& rows, const Terms& terms)
      : rows(rows), first(rows.parts * rows.channels), second(first) {
    for_rows<A>(
        rows, [&]<int L, bool inner>(int64_t row) __attribute__((always_inline)) {
          A* const into[2] = {&first[rows.partial(row)], &second[rows.partial(row)]};
          A line[2][16] = {};  // a plane's, lane by lane
          along<L>(
              rows.length, [&]<int K>(int64_t j) __attribute__((always_inline)) {
                const auto [a, b] = terms.template operator()<K, inner>(row, j);
                lanes<K>(inner ? into[0] + j : line[0]) += a;
                lanes<K>(inner ? into[1] + j : line[1]) += b;
              });
          if (inner) return;
          for (int k = 0; k < 2; ++k)
            for (int i = 0; i < L; ++i) *into[k] += line[k][i];
        });
  }
  // fn(channel, part's elements, index of its partial sums), channel by channel over the parts.
  template <class Fn> void for_parts(int64_t channel, const Fn& fn) const {
    for (int64_t p = 0; p < rows.parts; ++p) fn(rows.elements(p), p * rows.channels + channel);
  }
  const Rows& rows;
  std::vector<A> first, second;
};
template <class A, int L> struct Terms { Lanes<A, L> first, second; };

template <class A> A inverse_deviation(A var, double eps) { return A(1 / std::sqrt(var + eps)); }

}  // namespace

// Each part is shifted by its first element, so that no squares of large numbers cancel; parts are
// joined by the rule of Chan, Golub and LeVeque.
static Tensor statistics_cpu(const Tensor& x_) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_), statistics({2, rows.channels}, precise(x.dtype()));
  visit_stored(x.dtype(), [&]<class S>(S) {
    using A = Acc<S>;
    const S* const at = x.ptr<S>();
    const auto pivot = [&](int64_t row) __attribute__((always_inline)) {
      return at + (rows.inner ? row / rows.per_part * rows.per_part : row) * rows.length;
    };
    const ChannelSums<A> sums(
        rows, [&]<int L, bool inner>(int64_t row, int64_t j) __attribute__((always_inline)) {
          const Lanes<A, L> shift =
              inner ? load<L>(pivot(row) + j) : Lanes<A, L>{} + A(*pivot(row));
          const Lanes<A, L> d = load<L>(at + row * rows.length + j) - shift;
          return Terms<A, L>{d, d * d};
        });
    parallel_for(rows.channels, 64, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        double n = 0, mean = 0, squares = 0;
        sums.for_parts(c, [&](int64_t elements, int64_t i) {
          const int64_t part = i / rows.channels;
          const double shift =
              rows.inner ? at[part * rows.per_part * rows.length + c] : at[i * rows.length];
          const double m = double(elements), s = sums.first[i];
          const double delta = shift + s / m - mean;
          squares += sums.second[i] - s * s / m + delta * delta * n * m / (n + m);
          mean += delta * m / (n + m);
          n += m;
        });
        statistics.ptr<A>()[c] = A(mean);
        statistics.ptr<A>()[rows.channels + c] = A(std::max(0.0, squares / n));
      }
    });
  });
  return statistics;
}

static void update_running_cpu(const Tensor& mean, const Tensor& var, const Tensor& batches,
                               const Tensor& statistics, double momentum, double unbiased) {
  if (batches.defined()) ++*batches.ptr<int64_t>();
  const int64_t C = mean.numel();
  visit_float(statistics.dtype(), [&]<class A>(A) {
    visit_float(mean.dtype(), [&]<class R>(R) {
      const A* const batch = statistics.ptr<A>();
      for (int64_t c = 0; c < C; ++c) {
        R &m = mean.ptr<R>()[c], &v = var.ptr<R>()[c];
        m = R((1 - momentum) * m + momentum * batch[c]);
        v = R((1 - momentum) * v + momentum * unbiased * batch[C + c]);
      }
    });
  });
}

static kernels::Normalized forward_cpu(const Tensor& x_, const Tensor& statistics,
                                       const Tensor& weight, const Tensor& bias,
                                       const Tensor& residual_, bool relu, double eps) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_), y = rows.like(x_);
  const Tensor residual = residual_.defined() ? rows.ordered(residual_) : residual_;
  const Tensor bits = relu ? zeros({rows.count, rows.bytes_of_bits()}, DType::u8) : Tensor();
  visit_stored(x.dtype(), [&]<class S>(S) {
    using A = Acc<S>;
    const A *const mean = statistics.ptr<A>(), *const var = mean + rows.channels;
    std::vector<A> scales(rows.channels);
    for (int64_t c = 0; c < rows.channels; ++c)
      scales[c] = weight.ptr<A>()[c] * inverse_deviation(var[c], eps);
    const S* const added = residual.defined() ? residual.ptr<S>() : nullptr;
    for_rows<A>(
        rows, [&]<int L, bool inner>(int64_t row) __attribute__((always_inline)) {
          const int64_t c = rows.first_channel(row), first = row * rows.length;
          const A *const m = mean + c, *const s = &scales[c], *const b = bias.ptr<A>() + c;
          uint8_t* const line = relu ? bits.ptr<uint8_t>() + row * rows.bytes_of_bits() : nullptr;
          along<L>(
              rows.length, [&]<int K>(int64_t j) __attribute__((always_inline)) {
                Lanes<A, K> v = (load<K>(x.ptr<S>() + first + j) - of_channel<K, inner>(m, j)) *
                                    of_channel<K, inner>(s, j) +
                                of_channel<K, inner>(b, j);
                if (added) v += load<K>(added + first + j);
                if (relu) {
                  const auto off = v <= A(0);  // of NaN: on
                  put_bits<K, MaskOf<A>>(line, j, ~off);
                  v = off ? Lanes<A, K>{} : v;
                }
                store<K>(y.ptr<S>() + first + j, v);
              });
        });
  });
  return {y, bits};
}

namespace {
// dy where the bit is set, else 0.
template <class S> struct Incoming {
  Incoming(const Tensor& dy, const Tensor& bits, const Rows& rows)
      : dy(dy.ptr<S>()),
        bits(bits.defined() ? bits.ptr<uint8_t>() : nullptr),
        length(rows.length),
        bytes(rows.bytes_of_bits()) {}
  template <int L> [[gnu::always_inline]] Lanes<Acc<S>, L> at(int64_t row, int64_t j) const {
    const Lanes<Acc<S>, L> g = load<L>(dy + row * length + j);
    if (!bits) return g;
    return get_bits<L, MaskOf<Acc<S>>>(bits + row * bytes, j) ? g : Lanes<Acc<S>, L>{};
  }
  const S* dy;
  const uint8_t* bits;
  int64_t length, bytes;
};
}  // namespace

static void backward_w_cpu(const Tensor& dy_, const Tensor& x_, const Tensor& statistics,
                           const Tensor& bits, double eps, const Tensor& dw, const Tensor& db) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_), dy = rows.ordered(dy_);
  visit_stored(x.dtype(), [&]<class S>(S) {
    using A = Acc<S>;
    const A *const mean = statistics.ptr<A>(), *const var = mean + rows.channels;
    const Incoming<S> incoming(dy, bits, rows);
    const ChannelSums<A> sums(
        rows, [&]<int L, bool inner>(int64_t row, int64_t j) __attribute__((always_inline)) {
          const Lanes<A, L> g = incoming.template at<L>(row, j);
          const Lanes<A, L> d = load<L>(x.ptr<S>() + row * rows.length + j) -
                                of_channel<L, inner>(mean + rows.first_channel(row), j);
          return Terms<A, L>{g, g * d};
        });
    parallel_for(rows.channels, 64, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        double first = 0, second = 0;
        sums.for_parts(c, [&](int64_t, int64_t i) {
          first += sums.first[i];
          second += sums.second[i];
        });
        db.ptr<A>()[c] = A(first);
        dw.ptr<A>()[c] = A(second * inverse_deviation(double(var[c]), eps));
      }
    });
  });
  dw.raise_version();
  db.raise_version();
}

static kernels::NormalizedGrads backward_x_cpu(const Tensor& dy_, const Tensor& x_,
                                               const Tensor& statistics, const Tensor& weight,
                                               const Tensor& dw, const Tensor& db,
                                               const Tensor& bits, double eps, bool residual) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_), dy = rows.ordered(dy_), dx = rows.like(x_);
  const Tensor dresidual = residual ? rows.like(x_) : Tensor();
  visit_stored(x.dtype(), [&]<class S>(S) {
    using A = Acc<S>;
    const int64_t C = rows.channels, n = x.numel() / C;
    const A *const mean = statistics.ptr<A>(), *const var = mean + C;
    // dx = scale * dy - slope * (x - mean) - shift
    std::vector<A> scale(C), slope(C), shift(C);
    for (int64_t c = 0; c < C; ++c) {
      const double inverse = inverse_deviation(double(var[c]), eps);
      const double s = weight.ptr<A>()[c] * inverse;
      scale[c] = A(s);
      if (dw.defined()) slope[c] = A(s * inverse * dw.ptr<A>()[c] / double(n));
      if (db.defined()) shift[c] = A(s * db.ptr<A>()[c] / double(n));
    }
    const Incoming<S> incoming(dy, bits, rows);
    for_rows<A>(
        rows, [&]<int L, bool inner>(int64_t row) __attribute__((always_inline)) {
          const int64_t c = rows.first_channel(row), first = row * rows.length;
          along<L>(
              rows.length, [&]<int K>(int64_t j) __attribute__((always_inline)) {
                const Lanes<A, K> g = incoming.template at<K>(row, j);
                const Lanes<A, K> d =
                    load<K>(x.ptr<S>() + first + j) - of_channel<K, inner>(mean + c, j);
                store<K>(dx.ptr<S>() + first + j, of_channel<K, inner>(&scale[c], j) * g -
                                                      of_channel<K, inner>(&slope[c], j) * d -
                                                      of_channel<K, inner>(&shift[c], j));
                if (residual) store<K>(dresidual.ptr<S>() + first + j, g);
              });
        });
  });
  return {dx, dresidual};
}

static const bool cpu = kernels::channel_statistics.on(Device::cpu, statistics_cpu) &&
                        kernels::update_running.on(Device::cpu, update_running_cpu) &&
                        kernels::batch_norm.on(Device::cpu, forward_cpu) &&
                        kernels::batch_norm_backward_w.on(Device::cpu, backward_w_cpu) &&
                        kernels::batch_norm_backward_x.on(Device::cpu, backward_x_cpu) &&
                        kernels::batch_norm_training.on(Device::cpu, kernels::batch_norm_in_steps);

}  // namespace bellows
