// Attention on the CPU in one pass over blocks of keys, with a running maximum and sum for each
// query (online softmax). Scores exist only for a few queries and one block of keys at a time.
// Backward computes them again from log(sum(exp(score))). Dao et al., "FlashAttention: Fast and
// Memory-Efficient Exact Attention with IO-Awareness", NeurIPS 2022.
//
// A thread computes whole pairs of sample and head, so the bits do not depend on the number of
// threads. It first converts rows to dense matrices of T, whose rows are padded to full vectors.
#include "core/device/parallel.h"
#include "ops/attention/attention.h"
#include "ops/base/lanes.h"
#include "ops/base/maths.h"
#include "ops/base/per_thread.h"
#include "ops/matmul/tile_product.h"

namespace bellows {

namespace {

constexpr int64_t kKeys = 64;                 // keys of a block
constexpr int64_t kStrip = kTileRows;         // queries, or keys, of a row of tiles
constexpr int64_t kQueries = 8 * kStrip;      // queries of a block of backward
constexpr int64_t kChunk = int64_t{1} << 19;  // multiply-adds that are worth a thread

// ---- parts of both passes

struct Larger {
  template <class V> [[gnu::always_inline]] V operator()(V a, V b) const { return a > b ? a : b; }
};
// Folds the lanes of v, by halves.
template <int L, class T, class Fold>
[[gnu::always_inline]] inline T fold_lanes(Lanes<T, L> v, const Fold& fold) {
  if constexpr (L == 1) {
    return v[0];
  } else {
    const auto half = [&]<int... i>(std::integer_sequence<int, i...>, auto first)
        __attribute__((always_inline)) {
      return __builtin_shufflevector(v, v, (i + decltype(first)::value)...);
    };
    constexpr auto lanes = std::make_integer_sequence<int, L / 2>();
    return fold_lanes<L / 2, T>(fold(half(lanes, std::integral_constant<int, 0>()),
                                     half(lanes, std::integral_constant<int, L / 2>())),
                                fold);
  }
}

// to = from, converted, for `rows` rows of `columns` values. Fills columns up to `width` with 0.
// Rows of a head are too far apart for the prefetching of a CPU.
template <int L, class From, class To>
[[gnu::always_inline]] inline void convert(Steps<const From> from, Steps<To> to, int64_t rows,
                                           int64_t columns, int64_t width) {
  constexpr int64_t kAhead = 8;
  for (int64_t i = 0; i < rows; ++i) {
    const From* const x = from.at + i * from.row;
    To* const y = to.at + i * to.row;
    along<L>(
        columns, [&]<int l>(int64_t j) __attribute__((always_inline)) {
          __builtin_prefetch(x + kAhead * from.row + j);
          __builtin_prefetch(y + kAhead * to.row + j, 1);
          store<l>(y + j, load<l>(x + j));
        });
    std::fill(y + columns, y + width, To());
  }
}

// to (width, kKeys) = from (kKeys, width), transposed, for the first `count` rows of `from`.
template <int L, class T>
[[gnu::always_inline]] inline void transpose_block(const T* from, T* to, int64_t width,
                                                   int64_t count) {
  for (int64_t i = 0; i < width; i += L)
    for (int64_t j = 0; j < count; j += L) {
      Lanes<T, L> rows[L];
#pragma GCC unroll 16
      for (int k = 0; k < L; ++k) rows[k] = load<L>(from + (j + k) * width + i);
      transpose<T, L>(rows);
#pragma GCC unroll 16
      for (int k = 0; k < L; ++k) store<L>(to + (i + k) * kKeys + j, rows[k]);
    }
}

// Hands out parts of a thread's scratch memory.
template <class T> struct Scratch {
  T* take(int64_t size) { return std::exchange(at, at + size); }
  T* at;
};

// One attention. S: type of the tensors. T: type of the computation.
template <class S> struct Attention {
  using T = Acc<S>;
  explicit Attention(const Tensor& qkv, const Tensor& lengths, const AttentionOptions& options)
      : z(qkv, options),
        width(round_up(z.size, lane_count<T>())),
        scale(T(z.scale())),
        qkv(qkv.ptr<S>()),
        lengths(lengths.defined() ? lengths.ptr<int64_t>() : nullptr) {}

  // Rows t and up of the queries (part 0), keys (1) or values (2) of a pair, in a tensor like qkv.
  template <class P> Steps<P> rows(P* like_qkv, int64_t pair, int64_t part, int64_t t = 0) const {
    return {like_qkv + z.first(pair, 3 * z.D) + part * z.D + t * 3 * z.D, 3 * z.D};
  }
  // Number of keys of [first, first + count) that query t sees.
  int64_t visible(int64_t t, int64_t keys, int64_t first, int64_t count) const {
    return std::clamp<int64_t>(z.seen(t, keys) - first, 0, count);
  }

  // Calls fn.operator()<L>(pair, scratch) for each pair, with `size` elements of scratch memory.
  template <class Fn> void for_pairs(int64_t size, const Fn& fn) const {
    const PerThread<T> scratch(size);
    const int64_t chunk = std::max<int64_t>(kChunk / (z.T * z.T * z.size + 1), 1);
    parallel_for(z.pairs, chunk, [&](int64_t begin, int64_t end) {
      in_lanes<T>([&]<int L>() __attribute__((always_inline)) {
        for (int64_t pair = begin; pair < end; ++pair)
          fn.template operator()<L>(pair, Scratch<T>{scratch.mine()});
      });
    });
  }

  kernels::AttentionSizes z;
  int64_t width;
  T scale;
  const S* qkv;
  const int64_t* lengths;
};

// ---- forward

template <class S> struct Forward : Attention<S> {
  using typename Attention<S>::T;
  using Attention<S>::z, Attention<S>::width, Attention<S>::scale, Attention<S>::rows;
  Forward(const Tensor& qkv, const Tensor& lengths, const AttentionOptions& options, S* y, T* lse)
      : Attention<S>(qkv, lengths, options), y(y), lse(lse) {}
  int64_t scratch_size() const {
    return 2 * z.T * (width + 1) + (kKeys * 3) * width + kStrip * kKeys;
  }

  // Running state of a query: its maximal score, the sum of exp(score - maximum), and the row of y
  // times that sum.
  template <int L>
  [[gnu::always_inline]] void weigh(T* scores, int64_t seen, int64_t columns, T& most, T& sum,
                                    T* o) const {
    if (seen == 0) {
      std::fill(scores, scores + columns, T(0));
      return;
    }
    std::fill(scores + seen, scores + columns, scores[0]);
    Lanes<T, L> high = Lanes<T, L>{} + most, total{};
    for (int64_t j = 0; j < columns; j += L) {
      const Lanes<T, L> s = load<L>(scores + j);
      high = s > high ? s : high;
    }
    const T before = most;
    most = fold_lanes<L, T>(high, Larger());
    const T factor = scale, shift = most * factor;
    const T shrink = sum > 0 ? exp_of(std::fma(before, factor, -shift)) : 0;
    for (int64_t j = 0; j < columns; ++j) scores[j] = exp_of(std::fma(scores[j], factor, -shift));
    std::fill(scores + seen, scores + columns, T(0));
    for (int64_t j = 0; j < columns; j += L) total += load<L>(scores + j);
    sum = std::fma(sum, shrink, fold_lanes<L, T>(total, std::plus()));
    for (int64_t j = 0; j < width; j += L) store<L>(o + j, load<L>(o + j) * shrink);
  }

  template <int L> [[gnu::always_inline]] void operator()(int64_t pair, Scratch<T> scratch) const {
    T *const q = scratch.take(z.T * width), *const o = scratch.take(z.T * width);
    T *const k = scratch.take(kKeys * width), *const kt = scratch.take(kKeys * width);
    T *const v = scratch.take(kKeys * width), *const scores = scratch.take(kStrip * kKeys);
    T *const most = scratch.take(z.T), *const sum = scratch.take(z.T);
    const int64_t keys = z.keys(pair, this->lengths);
    convert<L>(rows(this->qkv, pair, 0), Steps<T>{q, width}, z.T, z.size, width);
    std::fill_n(o, z.T * width, T(0));
    std::fill_n(most, z.T, -std::numeric_limits<T>::infinity());
    std::fill_n(sum, z.T, T(0));
    for (int64_t first = 0; first < keys; first += kKeys) {
      const int64_t count = std::min(kKeys, keys - first);
      convert<L>(rows(this->qkv, pair, 1, first), Steps<T>{k, width}, count, z.size, width);
      convert<L>(rows(this->qkv, pair, 2, first), Steps<T>{v, width}, count, z.size, width);
      transpose_block<L>(k, kt, width, count);
      for (int64_t t = z.causal ? first / kStrip * kStrip : 0; t < z.T; t += kStrip) {
        const int64_t n = std::min(kStrip, z.T - t);
        const int64_t depth = this->visible(t + n - 1, keys, first, count);
        const int64_t columns = round_up(depth, L);
        multiply<L, T>({q + t * width, width}, {kt, kKeys}, {scores, kKeys}, n, z.size, columns);
        for (int64_t i = 0; i < n; ++i)
          weigh<L>(scores + i * kKeys, this->visible(t + i, keys, first, count), columns,
                   most[t + i], sum[t + i], o + (t + i) * width);
        multiply<L, T>({scores, kKeys}, {v, width}, {o + t * width, width}, n, depth, width, true);
      }
    }
    for (int64_t t = 0; t < z.T; ++t) {
      const T share = keys ? 1 / sum[t] : 0;
      for (int64_t j = 0; j < width; j += L)
        store<L>(o + t * width + j, load<L>(o + t * width + j) * share);
      lse[pair * z.T + t] = most[t] * scale + log_of(sum[t]);
    }
    convert<L>(Steps<const T>{o, width}, Steps<S>{y + z.first(pair, z.D), z.D}, z.T, z.size,
               z.size);
  }

  S* y;
  T* lse;
};

kernels::Attended forward_cpu(const Tensor& qkv, const Tensor& lengths,
                              const AttentionOptions& options) {
  const kernels::AttentionSizes z(qkv, options);
  const Tensor y = empty({qkv.dim(0), z.T, z.D}, qkv);
  return visit_stored(qkv.dtype(), [&]<class S>(S) {
    const Tensor lse({qkv.dim(0), z.heads, z.T}, dtype_of<Acc<S>>);
    const Forward<S> pass(qkv, lengths, options, y.ptr<S>(), lse.ptr<Acc<S>>());
    pass.for_pairs(pass.scratch_size(), pass);
    return kernels::Attended{y, lse};
  });
}

// ---- backward

template <class S> struct Backward : Attention<S> {
  using typename Attention<S>::T;
  using Attention<S>::z, Attention<S>::width, Attention<S>::scale, Attention<S>::rows;
  Backward(const Tensor& qkv, const Tensor& lengths, const AttentionOptions& options, const S* dy,
           const S* y, const T* lse, S* dqkv)
      : Attention<S>(qkv, lengths, options), dy(dy), y(y), lse(lse), dqkv(dqkv) {}
  int64_t scratch_size() const {
    return z.T * (3 * width + 1) + kKeys * 6 * width + 2 * kQueries * kKeys;
  }

  // Matrices of a pair, and of a block of keys.
  struct Memory {
    T *q, *dy, *dq, *delta;        // (T, width), delta (T)
    T *k, *v, *kt, *vt, *dk, *dv;  // (kKeys, width), kt and vt (width, kKeys)
    T *p, *ds;                     // (kQueries, kKeys)
  };

  // p = softmax(scores) and ds = p (dp - delta) scale for one query. On entry p holds its products
  // with the keys, and ds those of dy with the values.
  template <int L>
  [[gnu::always_inline]] void slopes(T* p, T* ds, int64_t seen, int64_t n_keys, T lse,
                                     T delta) const {
    const int64_t columns = round_up(seen, L);
    const T factor = scale;
#pragma GCC ivdep
    for (int64_t j = 0; j < columns; ++j) {
      p[j] = exp_of(std::fma(p[j], factor, -lse));
      ds[j] = p[j] * (ds[j] - delta) * factor;
    }
    std::fill(p + seen, p + n_keys, T(0));
    std::fill(ds + seen, ds + n_keys, T(0));
  }

  // Adds the part of queries [t, t + count) and keys [first, first + n_keys) to dq, dk and dv.
  template <int L>
  [[gnu::always_inline]] void add_block(const Memory& m, int64_t t, int64_t count, int64_t first,
                                        int64_t n_keys, int64_t keys, const T* lse) const {
    for (int64_t i = 0; i < count; i += kStrip) {
      const int64_t n = std::min(kStrip, count - i);
      const int64_t depth = this->visible(t + i + n - 1, keys, first, n_keys);
      if (depth == 0) continue;
      T *const p = m.p + i * kKeys, *const ds = m.ds + i * kKeys;
      const int64_t row = (t + i) * width, columns = round_up(depth, L);
      multiply<L, T>({m.q + row, width}, {m.kt, kKeys}, {p, kKeys}, n, z.size, columns);
      multiply<L, T>({m.dy + row, width}, {m.vt, kKeys}, {ds, kKeys}, n, z.size, columns);
      for (int64_t r = 0; r < n; ++r)
        slopes<L>(p + r * kKeys, ds + r * kKeys, this->visible(t + i + r, keys, first, n_keys),
                  n_keys, lse[t + i + r], m.delta[t + i + r]);
      multiply<L, T>({ds, kKeys}, {m.k, width}, {m.dq + row, width}, n, depth, width, true);
    }
    for (int64_t j = 0; j < n_keys; j += kStrip) {
      const int64_t n = std::min(kStrip, n_keys - j);
      const int64_t skip = z.causal ? std::clamp<int64_t>(first + j - t, 0, count) : 0;
      const int64_t from = skip * kKeys + j, row = (t + skip) * width;
      multiply<L, T>({m.p + from, 1, kKeys}, {m.dy + row, width}, {m.dv + j * width, width}, n,
                     count - skip, width, true);
      multiply<L, T>({m.ds + from, 1, kKeys}, {m.q + row, width}, {m.dk + j * width, width}, n,
                     count - skip, width, true);
    }
  }

  template <int L> [[gnu::always_inline]] void operator()(int64_t pair, Scratch<T> scratch) const {
    const int64_t whole = z.T * width, block = kKeys * width;
    Memory m;
    for (T** matrix : {&m.q, &m.dy, &m.dq}) *matrix = scratch.take(whole);
    for (T** matrix : {&m.k, &m.v, &m.kt, &m.vt, &m.dk, &m.dv}) *matrix = scratch.take(block);
    for (T** matrix : {&m.p, &m.ds}) *matrix = scratch.take(kQueries * kKeys);
    m.delta = scratch.take(z.T);
    const int64_t keys = z.keys(pair, this->lengths), at = z.first(pair, z.D);
    convert<L>(rows(this->qkv, pair, 0), Steps<T>{m.q, width}, z.T, z.size, width);
    convert<L>(Steps<const S>{dy + at, z.D}, Steps<T>{m.dy, width}, z.T, z.size, width);
    convert<L>(Steps<const S>{y + at, z.D}, Steps<T>{m.dq, width}, z.T, z.size, width);
    for (int64_t t = 0; t < z.T; ++t) {
      Lanes<T, L> sum{};
      for (int64_t j = t * width; j < (t + 1) * width; j += L)
        sum += load<L>(m.dy + j) * load<L>(m.dq + j);
      m.delta[t] = fold_lanes<L, T>(sum, std::plus());
    }
    std::fill_n(m.dq, whole, T(0));
    for (int64_t first = 0; first < z.T; first += kKeys) {
      const int64_t n_rows = std::min(kKeys, z.T - first);
      const int64_t n_keys = std::clamp<int64_t>(keys - first, 0, kKeys);
      convert<L>(rows(this->qkv, pair, 1, first), Steps<T>{m.k, width}, n_rows, z.size, width);
      convert<L>(rows(this->qkv, pair, 2, first), Steps<T>{m.v, width}, n_rows, z.size, width);
      transpose_block<L>(m.k, m.kt, width, n_keys);
      transpose_block<L>(m.v, m.vt, width, n_keys);
      std::fill_n(m.dk, n_rows * width, T(0));
      std::fill_n(m.dv, n_rows * width, T(0));
      for (int64_t t = z.causal ? first / kQueries * kQueries : 0; t < z.T && n_keys; t += kQueries)
        add_block<L>(m, t, std::min(kQueries, z.T - t), first, n_keys, keys, lse + pair * z.T);
      convert<L>(Steps<const T>{m.dk, width}, rows(dqkv, pair, 1, first), n_rows, z.size, z.size);
      convert<L>(Steps<const T>{m.dv, width}, rows(dqkv, pair, 2, first), n_rows, z.size, z.size);
    }
    convert<L>(Steps<const T>{m.dq, width}, rows(dqkv, pair, 0), z.T, z.size, z.size);
  }

  const S *dy, *y;
  const T* lse;
  S* dqkv;
};

Tensor backward_cpu(const Tensor& dy, const Tensor& y, const Tensor& qkv, const Tensor& lengths,
                    const Tensor& lse, const AttentionOptions& options) {
  const Tensor dqkv = empty(qkv.shape(), qkv);
  visit_stored(qkv.dtype(), [&]<class S>(S) {
    const Backward<S> pass(qkv, lengths, options, dy.ptr<S>(), y.ptr<S>(), lse.ptr<Acc<S>>(),
                           dqkv.ptr<S>());
    pass.for_pairs(pass.scratch_size(), pass);
  });
  return dqkv;
}

const bool cpu = kernels::attention.on(Device::cpu, forward_cpu) &&
                 kernels::attention_backward.on(Device::cpu, backward_cpu);

}  // namespace
}  // namespace bellows
