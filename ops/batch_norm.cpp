#include "ops/batch_norm.h"
#include <cmath>
#include "autograd/backward.h"
#include "autograd/recompute.h"
#include "core/copy.h"
#include "core/foreach.h"
#include "core/parallel.h"
#include "core/round.h"
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
        per_part(std::max<int64_t>(inner ? 32 : 1, kPart / std::max<int64_t>(length, 1))),
        parts(inner ? ceil_div(count, per_part) : x.dim(0)) {}

  Tensor ordered(const Tensor& t) const {
    return t.rank() == 4 ? contiguous(t, format()) : contiguous(t);
  }
  Tensor like(const Tensor& x) const {
    return x.rank() == 4 ? Tensor(x.shape(), x.dtype(), x.device(), format()) : empty(x.shape(), x);
  }
  const MemoryFormat& format() const { return nhwc ? kNHWC : kNCHW; }

  int64_t first_channel(int64_t row) const { return inner ? 0 : row % channels; }
  // Where the partial sums of the channels of a part's first row are among all: parts x channels.
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

// fn.operator()<L, inner>(begin, end) for the rows of each part, by one thread.
template <class A, class Fn> void for_parts(const Rows& rows, const Fn& fn) {
  parallel_for(rows.count, rows.per_part, [&](int64_t begin, int64_t end) {
    in_lanes<A>([&]<int L>() __attribute__((always_inline)) {
      if (rows.inner)
        fn.template operator()<L, true>(begin, end);
      else
        fn.template operator()<L, false>(begin, end);
    });
  });
}
// fn.operator()<L, inner>(row) for each row. A store of lanes may change whatever is reached by a
// reference; what is used along a row is therefore copied ([=]) into registers before.
template <class A, class Fn> void for_rows(const Rows& rows, const Fn& fn) {
  for_parts<A>(
      rows, [&]<int L, bool inner>(int64_t begin, int64_t end) __attribute__((always_inline)) {
        for (int64_t row = begin; row < end; ++row) fn.template operator()<L, inner>(row);
      });
}

// A number for each channel of a row: of elements j .. j + L, or of all of them.
template <int L, bool inner, class A>
[[gnu::always_inline]] inline Lanes<A, L> of_channel(const A* values, int64_t j) {
  if constexpr (inner)
    return load<L>(values + j);
  else
    return Lanes<A, L>{} + values[0];
}

template <class A, int L> struct Terms { Lanes<A, L> first, second; };

// Two sums over the elements of each channel, of each part. terms.operator()<L, inner>(row, begin,
// j) gives both summands of elements j .. j + L of a row, in a part whose first row is `begin`.
template <class A> struct ChannelSums {
  template <class Of>
  ChannelSums(const Rows& rows, const Of& terms)
      : sums(zeros({2, rows.parts * rows.channels}, dtype_of<A>)),
        first(sums.ptr<A>()),
        second(first + rows.parts * rows.channels) {
    for_parts<A>(
        rows, [&]<int L, bool inner>(int64_t begin, int64_t end) __attribute__((always_inline)) {
          int64_t row = begin;
          if (inner && rows.length <= kShort)
            for (; row + 4 <= end; row += 4) add<L, inner, 4>(rows, terms, row, begin);
          for (; row < end; ++row) add<L, inner, 1>(rows, terms, row, begin);
        });
  }
  const Tensor sums;
  A *const first, *const second;

 private:
  // Four short rows are summed in registers first. Long ones are read one by one: memory is fastest
  // in order.
  static constexpr int64_t kShort = 128;
  template <int L, bool inner, int R, class Of>
  [[gnu::always_inline]] void add(const Rows& rows, const Of& terms, int64_t row, int64_t begin) {
    const int64_t at = rows.partial(row);
    A line[2][16] = {};  // a plane's, lane by lane
    A *const a = inner ? first + at : line[0], *const b = inner ? second + at : line[1];
    along<L>(
        rows.length, [=]<int K>(int64_t j) __attribute__((always_inline)) {
          Terms<A, K> sum = terms.template operator()<K, inner>(row, begin, j);
#pragma GCC unroll 4
          for (int r = 1; r < R; ++r) {
            const Terms<A, K> next = terms.template operator()<K, inner>(row + r, begin, j);
            sum.first += next.first;
            sum.second += next.second;
          }
          add_to<K>(inner ? a + j : a, sum.first);
          add_to<K>(inner ? b + j : b, sum.second);
        });
    if (inner) return;
    for (int i = 0; i < L; ++i) {
      first[at] += line[0][i];
      second[at] += line[1][i];
    }
  }
};

constexpr int64_t kChannels = 64;  // that a thread joins the sums of, side by side

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
  const Tensor bits = relu ? Tensor({rows.count, rows.bytes_of_bits()}, DType::u8) : Tensor();
  visit_stored(x.dtype(), [&]<class S>(S) {
    using A = Acc<S>;
    const A *const mean = statistics.ptr<A>(), *const var = mean + rows.channels;
    const Tensor scale({rows.channels}, statistics.dtype());
    for (int64_t c = 0; c < rows.channels; ++c)
      scale.ptr<A>()[c] = weight.ptr<A>()[c] * inverse_deviation(var[c], eps);
    for_rows<A>(
        rows, [&]<int L, bool inner>(int64_t row) __attribute__((always_inline)) {
          const int64_t c = rows.first_channel(row), first = row * rows.length;
          const A *const m = mean + c, *const s = scale.ptr<A>() + c, *const b = bias.ptr<A>() + c;
          const S* const from = x.ptr<S>() + first;
          const S* const added = residual.defined() ? residual.ptr<S>() + first : nullptr;
          S* const to = y.ptr<S>() + first;
          uint8_t* const line = relu ? bits.ptr<uint8_t>() + row * rows.bytes_of_bits() : nullptr;
          along<L>(
              rows.length, [=]<int K>(int64_t j) __attribute__((always_inline)) {
                Lanes<A, K> v =
                    (load<K>(from + j) - of_channel<K, inner>(m, j)) * of_channel<K, inner>(s, j) +
                    of_channel<K, inner>(b, j);
                if (added) v += load<K>(added + j);
                if (line) {
                  const auto off = v <= A(0);  // of NaN: on
                  put_bits<K, MaskOf<A>>(line, j, ~off);
                  v = off ? Lanes<A, K>{} : v;
                }
                store<K>(to + j, v);
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
    using M = MaskOf<Acc<S>>;
    const Lanes<Acc<S>, L> g = load<L>(dy + row * length + j);
    if (!bits) return g;
    return (Lanes<Acc<S>, L>)((Lanes<M, L>)g & get_bits<L, M>(bits + row * bytes, j));
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
    const S* const from = x.ptr<S>();
    const Incoming<S> incoming(dy, bits, rows);
    const ChannelSums<A> sums(
        rows, [=]<int L, bool inner>(int64_t row, int64_t, int64_t j)
                  __attribute__((always_inline)) {
                    const Lanes<A, L> g = incoming.template at<L>(row, j);
                    const Lanes<A, L> d = load<L>(from + row * rows.length + j) -
                                          of_channel<L, inner>(mean + rows.first_channel(row), j);
                    return Terms<A, L>{g, g * d};
                  });
    parallel_for(rows.channels, kChannels, [&](int64_t begin, int64_t end) {
      double first[kChannels] = {}, second[kChannels] = {};
      for (int64_t p = 0; p < rows.parts; ++p)
        for (int64_t c = begin; c < end; ++c) {
          first[c - begin] += sums.first[p * rows.channels + c];
          second[c - begin] += sums.second[p * rows.channels + c];
        }
      for (int64_t c = begin; c < end; ++c) {
        db.ptr<A>()[c] = A(first[c - begin]);
        dw.ptr<A>()[c] = A(second[c - begin] * inverse_deviation(double(var[c]), eps));
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
    const Tensor terms = zeros({3, C}, statistics.dtype());
    A *const scale = terms.ptr<A>(), *const slope = scale + C, *const shift = slope + C;
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
          const S* const from = x.ptr<S>() + first;
          S* const to = dx.ptr<S>() + first;
          S* const around = residual ? dresidual.ptr<S>() + first : nullptr;
          along<L>(
              rows.length, [=]<int K>(int64_t j) __attribute__((always_inline)) {
                const Lanes<A, K> g = incoming.template at<K>(row, j);
                const Lanes<A, K> d = load<K>(from + j) - of_channel<K, inner>(mean + c, j);
                store<K>(to + j, of_channel<K, inner>(scale + c, j) * g -
                                     of_channel<K, inner>(slope + c, j) * d -
                                     of_channel<K, inner>(shift + c, j));
                if (around) store<K>(around + j, g);
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
