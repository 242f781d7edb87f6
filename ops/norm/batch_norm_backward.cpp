// batch_norm backward on the CPU: both sums of a channel in one pass over dy and x, dx in another.
#include "ops/norm/batch_norm_cpu.h"

namespace bellows {

using namespace batch_norm_cpu;

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

static const bool cpu = kernels::batch_norm_backward_w.on(Device::cpu, backward_w_cpu) &&
                        kernels::batch_norm_backward_x.on(Device::cpu, backward_x_cpu);

}  // namespace bellows
