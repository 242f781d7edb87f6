// Shared by forward and backward of batch_norm on the CPU: x as rows of contiguous elements.
#pragma once
#include <cmath>
#include "core/base/round.h"
#include "core/device/parallel.h"
#include "core/tensor/copy.h"
#include "ops/base/lanes.h"
#include "ops/norm/batch_norm.h"

namespace bellows::batch_norm_cpu {

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
  // Index of the row's partial sums among all: (parts, channels).
  int64_t partial(int64_t row) const { return inner ? row / per_part * channels : row; }
  // Elements per channel in a part.
  int64_t elements(int64_t part) const {
    return inner ? std::min(per_part, count - part * per_part) : length;
  }
  int64_t bytes_of_bits() const { return (length + 7) / 8; }  // per row

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
template <class A> Tensor scales_of(const Tensor& statistics, const Tensor& weight, double eps) {
  const int64_t C = weight.numel();
  const Tensor scales({C}, weight.dtype());
  for (int64_t c = 0; c < C; ++c)
    scales.ptr<A>()[c] = weight.ptr<A>()[c] * inverse_deviation(statistics.ptr<A>()[C + c], eps);
  return scales;
}

// F of each lane, by a loop that the compiler turns into vectors: formulas take single values.
template <class A, int L, class F>
[[gnu::always_inline]] inline Lanes<A, L> each_lane(Lanes<A, L> z, const F& formula) {
  A values[L];
  store<L>(values, z);
  for (int i = 0; i < L; ++i) values[i] = formula(values[i]);
  return load<L>(values);
}

// Writes dw and db of each channel, from the sums of dy and of dy * (x - mean).
template <class A>
void fold_gradients(const Rows& rows, const ChannelSums<A>& sums, const Tensor& statistics,
                    double eps, const Tensor& dw, const Tensor& db) {
  const A* const var = statistics.ptr<A>() + rows.channels;
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
  dw.raise_version();
  db.raise_version();
}

}  // namespace bellows::batch_norm_cpu
