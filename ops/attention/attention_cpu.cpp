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

using Sizes = kernels::AttentionSizes;
constexpr int64_t kKeys = 64;                 // keys in a block
constexpr int64_t kStrip = kTileRows;         // queries, or keys, in a row of tiles
constexpr int64_t kQueries = 8 * kStrip;      // queries in a block of backward
constexpr int64_t kChunk = int64_t{1} << 19;  // fewest multiply-adds worth waking a thread for
constexpr int64_t kQueryCost = 512;           // other cost of a query, in multiply-adds

// ---- parts of both passes

// v in lanes j + lane < count, `rest` in the others.
template <int L, class T>
[[gnu::always_inline]] inline Lanes<T, L> below(int64_t j, int64_t count, Lanes<T, L> v, T rest) {
  using M = MaskOf<T>;
  Lanes<M, L> lane;
  for (int i = 0; i < L; ++i) lane[i] = i;
  return lane < M(count - j) ? v : Lanes<T, L>{} + rest;
}

// to = from, converted, for `rows` rows of `columns` values. Fills columns up to `width`, a
// multiple of L, with 0. Rows of a head are too far apart for the prefetching of a CPU.
template <int L, class From, class To>
[[gnu::always_inline]] inline void convert(Steps<const From> from, Steps<To> to, int64_t rows,
                                           int64_t columns, int64_t width) {
  constexpr int64_t kAhead = 8;
  for (int64_t i = 0; i < rows; ++i) {
    const From* const x = from.at + i * from.row;
    To* const y = to.at + i * to.row;
    if (columns < width) store<L>(y + width - L, Lanes<Lane<To>, L>{});
    const auto move = [&]<int l>(int64_t & j) __attribute__((always_inline)) {
      for (; j + l <= columns; j += l) {
        __builtin_prefetch(x + kAhead * from.row + j);
        __builtin_prefetch(y + kAhead * to.row + j, 1);
        store<l>(y + j, load<l>(x + j));
      }
    };
    int64_t j = 0;
    move.template operator()<L>(j);
    move.template operator()<4>(j);
    move.template operator()<1>(j);
  }
}

// to (width, kKeys) = from (kKeys, width), transposed, for the first `count` rows of `from`.
template <int L, class T>
[[gnu::always_inline]] inline void transpose_block(const T* from, T* to, int64_t width,
                                                   int64_t count) {
  int64_t at[kKeys];
  for (int64_t j = 0; j < kKeys; ++j) at[j] = j * width;
  for (int64_t i = 0; i < width; i += L)
    gather<L>(from + i, 1, at, round_up(count, L), L, to + i * kKeys, kKeys);
}

// Scratch memory of a thread.
template <class T> struct Scratch {
  static int64_t size(int64_t rows, int64_t width) {
    return rows * (3 * width + 2) + kKeys * 6 * width + kQueries * 2 * kKeys;
  }
  Scratch(T* at, int64_t rows, int64_t width) {
    for (T** matrix : {&q, &dy, &o}) *matrix = std::exchange(at, at + rows * width);
    for (T** column : {&most, &sum}) *column = std::exchange(at, at + rows);
    for (T** block : {&k, &v, &kt, &vt, &dk, &dv}) *block = std::exchange(at, at + kKeys * width);
    for (T** scores : {&p, &ds}) *scores = std::exchange(at, at + kQueries * kKeys);
  }
  T *q, *dy, *o, *most, *sum;    // all rows of a pair: (T, width), (T)
  T *k, *v, *kt, *vt, *dk, *dv;  // a block of keys: (kKeys, width); kt and vt are transposed
  T *p, *ds;                     // scores: (kQueries, kKeys)
};

// The tensors of one attention, of type S, and its sizes. T: type of the computation.
template <class S> struct Attention {
  using T = Acc<S>;
  // Rows t and up of the queries (part 0), keys (1) or values (2) of a pair, in a tensor like qkv.
  template <class P> Steps<P> rows(P* like_qkv, int64_t pair, int64_t part, int64_t t = 0) const {
    return {like_qkv + z.first(pair, 3 * z.D) + part * z.D + t * 3 * z.D, 3 * z.D};
  }
  // Returns the number of keys of [first, first + count) that query t sees.
  int64_t visible(int64_t t, int64_t keys, int64_t first, int64_t count) const {
    return std::clamp<int64_t>(z.seen(t, keys) - first, 0, count);
  }

  // Running state of a query: its maximal score, the sum of exp(score - maximum), and the row of y
  // times that sum. Scores that the query does not see become 0.
  template <int L>
  [[gnu::always_inline]] void weigh(T* scores, int64_t seen, int64_t columns, T& most, T& sum,
                                    T* o) const {
    Lanes<T, L> high = Lanes<T, L>{} + most, total{};
    for (int64_t j = 0; j < columns; j += L) {
      const Lanes<T, L> s = below<L, T>(j, seen, load<L>(scores + j), -kInfinity);
      store<L>(scores + j, s);
      high = s > high ? s : high;
    }
    const T before = most;
    most = fold_lanes<L, T>(high, [](auto a, auto b) { return a > b ? a : b; });
    // A query that has seen no key has no maximum. Any finite shift then makes exp(-infinity) 0.
    const T factor = scale, shift = most > -kInfinity ? most * factor : 0;
    for (int64_t j = 0; j < columns; ++j) scores[j] = exp_of(std::fma(scores[j], factor, -shift));
    for (int64_t j = 0; j < columns; j += L) total += load<L>(scores + j);
    const T part = fold_lanes<L, T>(total, std::plus());
    if (sum > 0) {
      const T shrink = exp_of(std::fma(before, factor, -shift));
      sum = std::fma(sum, shrink, part);
      for (int64_t j = 0; j < width; j += L) store<L>(o + j, load<L>(o + j) * shrink);
    } else {
      sum = part;
    }
  }

  template <int L> [[gnu::always_inline]] void forward(int64_t pair, const Scratch<T>& m) const {
    const int64_t keys = z.keys(pair);
    convert<L>(rows(qkv, pair, 0), Steps<T>{m.q, width}, z.T, z.size, width);
    std::fill_n(m.o, z.T * width, T(0));
    std::fill_n(m.most, z.T, -std::numeric_limits<T>::infinity());
    std::fill_n(m.sum, z.T, T(0));
    for (int64_t first = 0; first < keys; first += kKeys) {
      const int64_t count = std::min(kKeys, keys - first);
      convert<L>(rows(qkv, pair, 1, first), Steps<T>{m.k, width}, count, z.size, width);
      convert<L>(rows(qkv, pair, 2, first), Steps<T>{m.v, width}, count, z.size, width);
      transpose_block<L>(m.k, m.kt, width, count);
      for (int64_t t = z.causal ? first / kStrip * kStrip : 0; t < z.T; t += kStrip) {
        const int64_t n = std::min(kStrip, z.T - t);
        const int64_t depth = visible(t + n - 1, keys, first, count);
        const int64_t columns = round_up(depth, L);
        multiply<L, T>({m.q + t * width, width}, {m.kt, kKeys}, {m.p, kKeys}, n, z.size, columns);
        for (int64_t i = 0; i < n; ++i)
          weigh<L>(m.p + i * kKeys, visible(t + i, keys, first, count), columns, m.most[t + i],
                   m.sum[t + i], m.o + (t + i) * width);
        multiply<L, T>({m.p, kKeys}, {m.v, width}, {m.o + t * width, width}, n, depth, width, true);
      }
    }
    T* const logs = lse + pair * z.T;
    const T factor = scale;
#pragma GCC ivdep
    for (int64_t t = 0; t < z.T; ++t) logs[t] = m.most[t] * factor + log_of(m.sum[t]);
    for (int64_t t = 0; t < z.T; ++t) {
      const T share = keys ? 1 / m.sum[t] : 0;
      for (int64_t j = 0; j < width; j += L)
        store<L>(m.o + t * width + j, load<L>(m.o + t * width + j) * share);
    }
    convert<L>(Steps<const T>{m.o, width}, Steps<S>{y + z.first(pair, z.D), z.D}, z.T, z.size,
               z.size);
  }

  // ---- backward

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
    for (int64_t j = seen / L * L; j < n_keys; j += L) {
      store<L>(p + j, below<L, T>(j, seen, load<L>(p + j), 0));
      store<L>(ds + j, below<L, T>(j, seen, load<L>(ds + j), 0));
    }
  }

  // Adds the part of queries [t, t + count) and keys [first, first + n_keys) to dq, dk and dv.
  template <int L>
  [[gnu::always_inline]] void add_block(const Scratch<T>& m, int64_t t, int64_t count,
                                        int64_t first, int64_t n_keys, int64_t keys,
                                        const T* lse) const {
    for (int64_t i = 0; i < count; i += kStrip) {
      const int64_t n = std::min(kStrip, count - i);
      const int64_t depth = visible(t + i + n - 1, keys, first, n_keys);
      if (depth == 0) continue;
      T *const p = m.p + i * kKeys, *const ds = m.ds + i * kKeys;
      const int64_t row = (t + i) * width, columns = round_up(depth, L);
      multiply<L, T>({m.q + row, width}, {m.kt, kKeys}, {p, kKeys}, n, z.size, columns);
      multiply<L, T>({m.dy + row, width}, {m.vt, kKeys}, {ds, kKeys}, n, z.size, columns);
      for (int64_t r = 0; r < n; ++r)
        slopes<L>(p + r * kKeys, ds + r * kKeys, visible(t + i + r, keys, first, n_keys), n_keys,
                  lse[t + i + r], m.sum[t + i + r]);
      multiply<L, T>({ds, kKeys}, {m.k, width}, {m.o + row, width}, n, depth, width, true);
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

  template <int L> [[gnu::always_inline]] void backward(int64_t pair, const Scratch<T>& m) const {
    const int64_t keys = z.keys(pair), at = z.first(pair, z.D);
    convert<L>(rows(qkv, pair, 0), Steps<T>{m.q, width}, z.T, z.size, width);
    convert<L>(Steps<const S>{dy + at, z.D}, Steps<T>{m.dy, width}, z.T, z.size, width);
    convert<L>(Steps<const S>{y + at, z.D}, Steps<T>{m.o, width}, z.T, z.size, width);
    for (int64_t t = 0; t < z.T; ++t) {
      Lanes<T, L> sum{};
      for (int64_t j = t * width; j < (t + 1) * width; j += L)
        sum += load<L>(m.dy + j) * load<L>(m.o + j);
      m.sum[t] = fold_lanes<L, T>(sum, std::plus());
    }
    std::fill_n(m.o, z.T * width, T(0));
    for (int64_t first = 0; first < z.T; first += kKeys) {
      const int64_t n_rows = std::min(kKeys, z.T - first);
      const int64_t n_keys = std::clamp<int64_t>(keys - first, 0, kKeys);
      convert<L>(rows(qkv, pair, 1, first), Steps<T>{m.k, width}, n_rows, z.size, width);
      convert<L>(rows(qkv, pair, 2, first), Steps<T>{m.v, width}, n_rows, z.size, width);
      transpose_block<L>(m.k, m.kt, width, n_keys);
      transpose_block<L>(m.v, m.vt, width, n_keys);
      std::fill_n(m.dk, n_rows * width, T(0));
      std::fill_n(m.dv, n_rows * width, T(0));
      for (int64_t t = z.causal ? first / kQueries * kQueries : 0; t < z.T && n_keys; t += kQueries)
        add_block<L>(m, t, std::min(kQueries, z.T - t), first, n_keys, keys, lse + pair * z.T);
      convert<L>(Steps<const T>{m.dk, width}, rows(dqkv, pair, 1, first), n_rows, z.size, z.size);
      convert<L>(Steps<const T>{m.dv, width}, rows(dqkv, pair, 2, first), n_rows, z.size, z.size);
    }
    convert<L>(Steps<const T>{m.o, width}, rows(dqkv, pair, 0), z.T, z.size, z.size);
  }

  const Sizes z;
  const S* const qkv;
  S* const y;
  T* const lse;
  const S* const dy = nullptr;
  S* const dqkv = nullptr;
  const int64_t width = round_up(z.size, lane_count<T>());
  const T scale = T(z.scale);
};

// Calls fn.operator()<L>(pair, scratch) for each pair.
template <class T, class Fn> void for_pairs(const Sizes& z, int64_t width, const Fn& fn) {
  const PerThread<T> memory(Scratch<T>::size(z.T, width));
  const int64_t chunk = std::max<int64_t>(kChunk / (z.T * (z.T * z.size + kQueryCost) + 1), 1);
  parallel_for(z.pairs, chunk, [&](int64_t begin, int64_t end) {
    const Scratch<T> scratch(memory.mine(), z.T, width);
    in_lanes<T>([&]<int L>() __attribute__((always_inline)) {
      for (int64_t pair = begin; pair < end; ++pair) fn.template operator()<L>(pair, scratch);
    });
  });
}

kernels::Attended forward_cpu(const Tensor& qkv, const Tensor& lengths,
                              const AttentionOptions& options) {
  const Sizes z(qkv, lengths, options);
  const Tensor y = empty({qkv.dim(0), z.T, z.D}, qkv);
  return visit_stored(qkv.dtype(), [&]<class S>(S) {
    using T = Acc<S>;
    const Tensor lse({qkv.dim(0), z.heads, z.T}, dtype_of<T>);
    const Attention<S> on{z, qkv.ptr<S>(), y.ptr<S>(), lse.ptr<T>()};
    for_pairs<T>(
        z, on.width,
        [&]<int L>(int64_t pair, const Scratch<T>& scratch)
            __attribute__((always_inline)) { on.template forward<L>(pair, scratch); });
    return kernels::Attended{y, lse};
  });
}

Tensor backward_cpu(const Tensor& dy, const Tensor& y, const Tensor& qkv, const Tensor& lengths,
                    const Tensor& lse, const AttentionOptions& options) {
  const Sizes z(qkv, lengths, options);
  const Tensor dqkv = empty(qkv.shape(), qkv);
  visit_stored(qkv.dtype(), [&]<class S>(S) {
    using T = Acc<S>;
    const Attention<S> on{z, qkv.ptr<S>(), y.ptr<S>(), lse.ptr<T>(), dy.ptr<S>(), dqkv.ptr<S>()};
    for_pairs<T>(
        z, on.width,
        [&]<int L>(int64_t pair, const Scratch<T>& scratch)
            __attribute__((always_inline)) { on.template backward<L>(pair, scratch); });
  });
  return dqkv;
}

const bool cpu = kernels::attention.on(Device::cpu, forward_cpu) &&
                 kernels::attention_backward.on(Device::cpu, backward_cpu);

}  // namespace
}  // namespace bellows
