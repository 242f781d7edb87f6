// Multi-head self-attention of queries, keys and values that one linear layer computes: for each
// head, y = softmax(q k^T / sqrt(D / heads)) v. Vaswani et al., "Attention Is All You Need", 2017.
#pragma once
#include <cmath>
#include "core/tensor/kernel.h"
#include "ops/base/op.h"

namespace bellows {

struct AttentionOptions {
  int64_t heads = 1;
  bool causal = true;  // query t sees only the keys at positions up to t
};

// qkv: (B, T, 3 D), any float dtype. A row holds the queries, then the keys, then the values of all
// heads, head after head. lengths: (B) i64, or undefined: keys at positions >= lengths[b] are left
// out, for every query of sample b. Returns y (B, T, D), which is 0 for a query that sees no key.
// Under amp f32 qkv is cast to 16 bits. Sums and the softmax are computed in f32, or in f64 for
// f64. fused: the scores (T, T) of a head are never written; counted as fuse.attention. Throws
// (exit 2) if shapes or dtypes do not fit.
Tensor attention(const Tensor& qkv, const Tensor& lengths, const AttentionOptions& options,
                 Impl impl = Impl::fused);

namespace kernels {
struct Attended {
  Tensor y, lse;  // lse (B, heads, T): log(sum(exp(score))) of each query, f32 or, for f64, f64
};
// qkv and all operands of backward are row-major; lengths may be undefined.
inline constinit Kernel<Attended(const Tensor& qkv, const Tensor& lengths,
                                 const AttentionOptions& options)>
    attention{"attention"};
// Returns the gradient of qkv.
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& y, const Tensor& qkv,
                               const Tensor& lengths, const Tensor& lse,
                               const AttentionOptions& options)>
    attention_backward{"attention_backward"};

// Sizes of an attention, on every device. A pair is a sample and a head.
struct AttentionSizes {
  AttentionSizes(const Tensor& qkv, const Tensor& lengths, const AttentionOptions& options)
      : T(qkv.dim(1)),
        D(qkv.dim(2) / 3),
        heads(options.heads),
        size(D / options.heads),
        pairs(qkv.dim(0) * options.heads),
        scale(1 / std::sqrt(double(size))),
        causal(options.causal),
        lengths(lengths.defined() ? lengths.ptr<int64_t>() : nullptr) {}
  // Offsets of the first row of a pair, in a tensor with rows of `row` values.
  HD int64_t first(int64_t pair, int64_t row) const {
    return pair / heads * T * row + pair % heads * size;
  }
  // Returns the number of keys of a pair that are not padding.
  HD int64_t keys(int64_t pair) const {
    if (!lengths) return T;
    const int64_t length = lengths[pair / heads];
    return length < 0 ? 0 : length < T ? length : T;
  }
  // Returns how many of `keys` keys query t sees.
  HD int64_t seen(int64_t t, int64_t keys) const { return causal && t < keys ? t + 1 : keys; }

  int64_t T, D, heads, size, pairs;
  double scale;  // factor of the products of queries and keys
  bool causal;
  const int64_t* lengths;  // keys per sample; null: all keys count
};
}  // namespace kernels
}  // namespace bellows
