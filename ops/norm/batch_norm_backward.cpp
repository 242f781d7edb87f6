// batch_norm backward on the CPU: both sums of a channel in one pass over dy and x, dx in another.
#include "ops/base/functors.h"
#include "ops/norm/batch_norm_cpu.h"

namespace bellows {

using namespace batch_norm_cpu;

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
                                        const Tensor& statistics, const Tensor& bits, double eps,
                                        bool keep, const Tensor& dw, const Tensor& db) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_), dy = rows.ordered(dy_);
  const Tensor more = more_.defined() ? rows.ordered(more_) : more_;
  const Tensor kept = keep || more.defined() ? rows.like(x_) : Tensor();
  visit_stored(x.dtype(), [&]<class S>(S) {
    using A = Acc<S>;
    const A* const mean = statistics.ptr<A>();
    const S* const from = x.ptr<S>();
    const Gradient<S> incoming(dy, more, bits, kept, rows);
    const ChannelSums<A> sums(
        rows, [=]<int L, bool inner>(int64_t row, int64_t, int64_t j)
                  __attribute__((always_inline)) {
                    const Lanes<A, L> g = incoming.template at<L>(row, j);
                    const Lanes<A, L> d = load<L>(from + row * rows.length + j) -
                                          of_channel<L, inner>(mean + rows.first_channel(row), j);
                    return Terms<A, L>{g, g * d};
                  });
    fold_gradients(rows, sums, statistics, eps, dw, db);
  });
  return kept.defined() ? kernels::Incoming{kept, {}} : kernels::Incoming{dy, bits};
}

static Tensor gelu_backward_cpu(const Tensor& dy_, const Tensor& x_, const Tensor& statistics,
                                const Tensor& weight, const Tensor& bias_, double eps,
                                const Tensor& dw, const Tensor& db) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_), dy = rows.ordered(dy_), dz = rows.like(x_);
  visit_stored(x.dtype(), [&]<class S>(S) {
    using A = Acc<S>;
    const Tensor scales = scales_of<A>(statistics, weight, eps);
    const A *const mean = statistics.ptr<A>(), *const scale = scales.ptr<A>();
    const A* const bias = bias_.ptr<A>();
    const S *const from = x.ptr<S>(), *const incoming = dy.ptr<S>();
    S* const to = dz.ptr<S>();
    const ChannelSums<A> sums(
        rows, [=]<int L, bool inner>(int64_t row, int64_t,
                                     int64_t j) __attribute__((always_inline)) {
          const int64_t c = rows.first_channel(row), i = row * rows.length + j;
          const Lanes<A, L> d = load<L>(from + i) - of_channel<L, inner>(mean + c, j);
          const Lanes<A, L> slope = each_lane<A, L>(
              d * of_channel<L, inner>(scale + c, j) + of_channel<L, inner>(bias + c, j),
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

static Tensor backward_x_cpu(const Tensor& dy_, const Tensor& x_, const Tensor& statistics,
                             const Tensor& weight, const Tensor& dw, const Tensor& db,
                             const Tensor& bits, double eps) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_), dy = rows.ordered(dy_), dx = rows.like(x_);
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

static const bool cpu = kernels::batch_norm_backward_w.on(Device::cpu, backward_w_cpu) &&
                        kernels::batch_norm_gelu_backward.on(Device::cpu, gelu_backward_cpu) &&
                        kernels::batch_norm_backward_x.on(Device::cpu, backward_x_cpu);

}  // namespace bellows
