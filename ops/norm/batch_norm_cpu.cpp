// batch_norm on the CPU, on x as rows of contiguous elements. Forward makes one pass for the
// batch's statistics and another one for y, backward one for both sums of a channel and another one
// for dx.
#include <cmath>
#include "core/base/round.h"
#include "core/device/parallel.h"
#include "core/tensor/copy.h"
#include "ops/base/lanes.h"
#include "ops/norm/batch_norm.h"

namespace bellows {

namespace {

// View of x as rows. `inner`: a row is a pixel and its elements are channels (NHWC and (N, C));
// otherwise a row is the plane of one channel. Work is split into parts of whole rows that do not
// depend on the number of threads. Each part has its own partial sums of every channel in it.
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
  // Returns the index of the row's partial sums among all: (parts, channels).
  int64_t partial(int64_t row) const { return inner ? row / per_part * channels : row; }
  // Returns the number of elements per channel in a part.
  int64_t elements(int64_t part) const {
    return inner ? std::min(per_part, count - part * per_part) : length;
  }
  int64_t bytes_of_bits() const { return (length + 7) / 8; }  // bytes of one row's bits

  static constexpr int64_t kPart = 32768;  // elements
  bool nhwc, inner;
  int64_t channels, length, count, per_part, parts;
};

// Calls fn.operator()<L, inner>(begin, end) for the rows of each part, on one thread.
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
// Calls fn.operator()<L, inner>(row) for each row. The compiler must assume that a store of lanes
// changes anything reached by reference. So lambdas copy ([=]) the values they use along a row.
template <class A, class Fn> void for_rows(const Rows& rows, const Fn& fn) {
  for_parts<A>(
      rows, [&]<int L, bool inner>(int64_t begin, int64_t end) __attribute__((always_inline)) {
        for (int64_t row = begin; row < end; ++row) fn.template operator()<L, inner>(row);
      });
}

// Per-channel values for elements [j, j + L) of a row; in a plane all are the same.
template <int L, bool inner, class A>
[[gnu::always_inline]] inline Lanes<A, L> of_channel(const A* values, int64_t j) {
  if constexpr (inner)
    return load<L>(values + j);
  else
    return Lanes<A, L>{} + values[0];
}

template <class A, int L> struct Terms { Lanes<A, L> first, second; };

// Two sums over the elements of each channel, per part. terms.operator()<L, inner>(row, begin, j)
// returns both summands for elements [j, j + L) of a row; `begin` is the first row of its part.
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
  // Adds up four short rows in registers. Long rows are read one by one: memory is fastest in
  // order.
  static constexpr int64_t kShort = 128;
  template <int L, bool inner, int R, class Of>
  [[gnu::always_inline]] void add(const Rows& rows, const Of& terms, int64_t row, int64_t begin) {
    const int64_t at = rows.partial(row);
    A line[2][16] = {};  // sums of a plane, per lane
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

constexpr int64_t kChannels = 64;  // channels whose partial sums a thread merges at a time

template <class A> A inverse_deviation(A var, double eps) { return A(1 / std::sqrt(var + eps)); }

// weight / sqrt(var + eps) of each channel
template <class A> Tensor scales_of(const kernels::Normalization& norm) {
  const int64_t C = norm.weight.numel();
  const Tensor scales({C}, norm.weight.dtype());
  const A *const weight = norm.weight.ptr<A>(), *const var = norm.statistics.ptr<A>() + C;
  for (int64_t c = 0; c < C; ++c)
    scales.ptr<A>()[c] = weight[c] * inverse_deviation(var[c], norm.eps);
  return scales;
}

// Writes dw and db of each channel, from the sums of dy and of dy * (x - mean).
template <class A>
void fold_gradients(const Rows& rows, const ChannelSums<A>& sums,
                    const kernels::Normalization& norm, const Tensor& dw, const Tensor& db) {
  const A* const var = norm.statistics.ptr<A>() + rows.channels;
  parallel_for(rows.channels, kChannels, [&](int64_t begin, int64_t end) {
    double first[kChannels] = {}, second[kChannels] = {};
    for (int64_t p = 0; p < rows.parts; ++p)
      for (int64_t c = begin; c < end; ++c) {
        first[c - begin] += sums.first[p * rows.channels + c];
        second[c - begin] += sums.second[p * rows.channels + c];
      }
    for (int64_t c = begin; c < end; ++c) {
      db.ptr<A>()[c] = A(first[c - begin]);
      dw.ptr<A>()[c] = A(second[c - begin] * inverse_deviation(double(var[c]), norm.eps));
    }
  });
  dw.raise_version();
  db.raise_version();
}

}  // namespace

// ---- forward

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
    const A* const batch = statistics.ptr<A>();
    for (int64_t c = 0; c < C; ++c) {
      A &m = mean.ptr<A>()[c], &v = var.ptr<A>()[c];
      m = A(kernels::moved(m, batch[c], running.momentum));
      v = A(kernels::moved(v, batch[C + c], running.momentum, running.unbiased));
    }
  });
}

static kernels::Normalized forward_cpu(const Tensor& x_, const kernels::Normalization& norm,
                                       const Tensor& residual_, bool relu) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_), y = rows.like(x_);
  const Tensor residual = residual_.defined() ? rows.ordered(residual_) : residual_;
  const Tensor bits = relu ? Tensor({rows.count, rows.bytes_of_bits()}, DType::u8) : Tensor();
  visit_stored(x.dtype(), [&]<class S>(S) {
    using A = Acc<S>;
    const A *const mean = norm.statistics.ptr<A>(), *const bias = norm.bias.ptr<A>();
    const Tensor scale = scales_of<A>(norm);
    for_rows<A>(
        rows, [&]<int L, bool inner>(int64_t row) __attribute__((always_inline)) {
          const int64_t c = rows.first_channel(row), first = row * rows.length;
          const A *const m = mean + c, *const s = scale.ptr<A>() + c, *const b = bias + c;
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

// ---- backward

namespace {
// dy + more where the bit is set, else 0. Rounds the sum to S, and writes the result to `kept`, if
// defined. `more` needs `kept`.
template <class S> struct Gradient {
  Gradient(const Tensor& dy, const Tensor& more, const Tensor& bits, const Tensor& kept,
           const Rows& rows)
      : dy(dy.ptr<S>()),
        more(more.defined() ? more.ptr<S>() : nullptr),
        bits(bits.defined() ? bits.ptr<uint8_t>() : nullptr),
        kept(kept.defined() ? kept.ptr<S>() : nullptr),
        length(rows.length),
        bytes(rows.bytes_of_bits()) {}
  template <int L> [[gnu::always_inline]] Lanes<Acc<S>, L> at(int64_t row, int64_t j) const {
    using M = MaskOf<Acc<S>>;
    const int64_t i = row * length + j;
    Lanes<Acc<S>, L> g = load<L>(dy + i);
    if (more) g += load<L>(more + i);
    if (bits) g = (Lanes<Acc<S>, L>)((Lanes<M, L>)g & get_bits<L, M>(bits + row * bytes, j));
    if (!kept) return g;
    store<L>(kept + i, g);
    return load<L>(kept + i);
  }
  const S *dy, *more;
  const uint8_t* bits;
  S* kept;
  int64_t length, bytes;
};
}  // namespace

static kernels::Incoming backward_w_cpu(const Tensor& dy_, const Tensor& more_, const Tensor& x_,
                                        const kernels::Normalization& norm, const Tensor& bits,
                                        bool keep, const Tensor& dw, const Tensor& db) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_), dy = rows.ordered(dy_);
  const Tensor more = more_.defined() ? rows.ordered(more_) : more_;
  const Tensor kept = keep || more.defined() ? rows.like(x_) : Tensor();
  visit_stored(x.dtype(), [&]<class S>(S) {
    using A = Acc<S>;
    const A* const mean = norm.statistics.ptr<A>();
    const S* const from = x.ptr<S>();
    const Gradient<S> incoming(dy, more, bits, kept, rows);
    const ChannelSums<A> sums(
        rows, [=]<int L, bool inner>(int64_t row, int64_t,
                                     int64_t j) __attribute__((always_inline)) {
          const int64_t c = rows.first_channel(row), i = row * rows.length + j;
          const Lanes<A, L> g = incoming.template at<L>(row, j);
          return Terms<A, L>{g, g * (load<L>(from + i) - of_channel<L, inner>(mean + c, j))};
        });
    fold_gradients(rows, sums, norm, dw, db);
  });
  return kept.defined() ? kernels::Incoming{kept, {}} : kernels::Incoming{dy, bits};
}

static Tensor backward_x_cpu(const Tensor& dy_, const Tensor& x_,
                             const kernels::Normalization& norm, const Tensor& dw, const Tensor& db,
                             const Tensor& bits) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_), dy = rows.ordered(dy_), dx = rows.like(x_);
  visit_stored(x.dtype(), [&]<class S>(S) {
    using A = Acc<S>;
    const int64_t C = rows.channels, n = x.numel() / C;
    const A *const mean = norm.statistics.ptr<A>(), *const var = mean + C;
    // dx = scale * dy - slope * (x - mean) - shift
    const Tensor terms = zeros({3, C}, norm.statistics.dtype());
    A *const scale = terms.ptr<A>(), *const slope = scale + C, *const shift = slope + C;
    for (int64_t c = 0; c < C; ++c) {
      const double inverse = inverse_deviation(double(var[c]), norm.eps);
      const double s = norm.weight.ptr<A>()[c] * inverse;
      scale[c] = A(s);
      if (dw.defined()) slope[c] = A(s * inverse * dw.ptr<A>()[c] / double(n));
      if (db.defined()) shift[c] = A(s * db.ptr<A>()[c] / double(n));
    }
    const Gradient<S> incoming(dy, {}, bits, {}, rows);
    for_rows<A>(
        rows, [&]<int L, bool inner>(int64_t row) __attribute__((always_inline)) {
          const int64_t c = rows.first_channel(row), first = row * rows.length;
          const S* const from = x.ptr<S>() + first;
          S* const to = dx.ptr<S>() + first;
          along<L>(
              rows.length, [=]<int K>(int64_t j) __attribute__((always_inline)) {
                const Lanes<A, K> g = incoming.template at<K>(row, j);
                const Lanes<A, K> d = load<K>(from + j) - of_channel<K, inner>(mean + c, j);
                store<K>(to + j, of_channel<K, inner>(scale + c, j) * g -
                                     of_channel<K, inner>(slope + c, j) * d -
                                     of_channel<K, inner>(shift + c, j));
              });
        });
  });
  return dx;
}

static const bool cpu = kernels::channel_statistics.on(Device::cpu, statistics_cpu) &&
                        kernels::update_running.on(Device::cpu, update_running_cpu) &&
                        kernels::batch_norm.on(Device::cpu, forward_cpu) &&
                        kernels::batch_norm_backward_w.on(Device::cpu, backward_w_cpu) &&
                        kernels::batch_norm_backward_x.on(Device::cpu, backward_x_cpu);

}  // namespace bellows
