#include "ops/attention/attention.h"
#include <numeric>
#include "autograd/amp.h"
#include "core/tensor/copy.h"
#include "ops/base/work.h"
#include "ops/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/shape.h"
#include "ops/softmax.h"

namespace bellows {

// ---- the op

static void check(const Tensor& qkv, const Tensor& lengths, const AttentionOptions& o) {
  const Shape& shape = qkv.shape();
  CHECK(is_float(qkv.dtype()), "attention: qkv is ", qkv.dtype(), ", not a float type");
  CHECK(o.heads >= 1 && shape.rank() == 3 && shape[2] > 0 && shape[2] % (3 * o.heads) == 0,
        "attention: qkv ", shape, " should be (B, T, 3 D), where D is a multiple of ", o.heads,
        " heads");
  if (!lengths.defined()) return;
  CHECK(lengths.shape() == Shape{shape[0]}, "attention: qkv ", shape, " needs lengths of shape ",
        Shape{shape[0]}, ", got ", lengths.shape());
  CHECK(lengths.dtype() == DType::i64, "attention: the lengths are ", lengths.dtype(), ", not i64");
}

// Returns 1 where a query sees a key, else 0: (B or 1, 1, T, T), in the dtype of the scores.
static Tensor visible_keys(const Tensor& scores, const Tensor& lengths, bool causal) {
  const int64_t T = scores.dim(-1);
  std::vector<float> at(T);
  std::iota(at.begin(), at.end(), 0.f);
  const Tensor position = tensor_of(at, {T}, scores.device());
  Tensor end = full({1, 1, T, 1}, double(T), position);
  if (causal) end = add(position.view_as({1, 1, T, 1}), 1);
  if (lengths.defined())
    end = minimum(end, cast(contiguous(lengths), DType::f32).view_as({lengths.dim(0), 1, 1, 1}));
  return cast(minimum(relu(sub(end, position)), full({}, 1, end)), scores.dtype());
}

// Hidden scores become -1e30, whose exp is 0. The product with `visible` makes rows without a key
// 0.
static Tensor composed(const Tensor& qkv, const Tensor& lengths, const AttentionOptions& options) {
  const int64_t B = qkv.dim(0), T = qkv.dim(1), D = qkv.dim(2) / 3, size = D / options.heads;
  const Tensor heads = permute(reshape(qkv, {B, T, 3, options.heads, size}), {2, 0, 3, 1, 4});
  const auto part = [&](int64_t i) {
    return reshape(slice(heads, 0, i, i + 1), {B, options.heads, T, size});
  };
  const Tensor products = amp::full(matmul(part(0), permute(part(1), {0, 1, 3, 2})));
  const Tensor visible = visible_keys(products, lengths, options.causal);
  const Tensor scores = mul(products, 1 / std::sqrt(double(size)));
  const Tensor weights = mul(softmax(add(scores, affine(visible, 1e30, -1e30))), visible);
  return reshape(permute(matmul(weights, part(2)), {0, 2, 1, 3}), {B, T, D});
}

Tensor attention(const Tensor& qkv_, const Tensor& lengths_, const AttentionOptions& options,
                 Impl impl) {
  check(qkv_, lengths_, options);
  if (impl == Impl::composed) return composed(qkv_, lengths_, options);
  trace::count<"fuse.attention">();
  const auto [low] = amp::low(qkv_);
  const Tensor qkv = contiguous(low),
               lengths = lengths_.defined() ? contiguous(lengths_) : lengths_;
  const auto [y, lse] = kernels::attention(qkv, lengths, options);
  if (!will_record(low)) return y;
  return record(options.causal ? "causal_attention" : "attention", y, {low},
                [y = Saved(y), qkv = Saved(qkv), lengths = Saved(lengths), lse = Saved(lse),
                 options](const Tensor& dy) {
                  return Grads{kernels::attention_backward(contiguous(dy), y(), qkv(), lengths(),
                                                           lse(), options)};
                });
}

// Forward: q k^T and p v. Backward: q k^T again, dy v^T, and the products of dq, dk and dv.
static OpWork work_of_keys(const RecordedOp& op, double keys) {
  const double flop = 2 * keys * double(op.y.numel()), y = result_bytes(op);
  return {{2 * flop, 4 * y}, {5 * flop, 8 * y}};
}
static const AddWork works[] = {
    {"attention", [](const RecordedOp& op) { return work_of_keys(op, double(op.y[1])); }},
    {"causal_attention",
     [](const RecordedOp& op) { return work_of_keys(op, double(op.y[1] + 1) / 2); }}};

// ---- specs

// Lengths T, T - 3, T - 6, ...; the last of three or more samples has no keys.
static Tensor some_lengths(const Tensor& qkv) {
  std::vector<int64_t> lengths(qkv.dim(0));
  for (size_t b = 0; b < lengths.size(); ++b)
    lengths[b] = std::max<int64_t>(qkv.dim(1) - 3 * int64_t(b), 0);
  if (lengths.size() > 2) lengths.back() = 0;
  return tensor_of(lengths, {qkv.dim(0)}, qkv.device());
}
static bool add_spec(const char* variant, const AttentionOptions& options, bool padded) {
  const auto run = [=](const Inputs& in, Impl impl) {
    const bool fits = padded && in[0].rank() == 3;
    return attention(in[0], fits ? some_lengths(in[0]) : Tensor(), options, impl);
  };
  const int64_t D = 3 * options.heads;
  AddOp({.name = "attention",
         .math = "softmax(q k^T / sqrt(D / heads)) v for each head",
         .cases = {{{1, 1, D}}, {{2, 3, 3 * D}}, {{3, 9, 2 * D}}},
         .run = [=](const Inputs& in) { return run(in, Impl::fused); },
         .rejects = {{{4, D}}, {{2, 3, D + 1}}},
         .variant = variant,
         .large = {{{2, 150, 17 * D}}, {{5, 33, 15 * D}}},
         .composed = [=](const Inputs& in) { return run(in, Impl::composed); },
         .close_f32 = false});
  return true;
}
static const bool specs = add_spec("", {.heads = 3, .causal = false}, false) &&
                          add_spec("causal", {.heads = 1, .causal = true}, false) &&
                          add_spec("padded", {.heads = 1, .causal = false}, true) &&
                          add_spec("causal padded", {.heads = 3, .causal = true}, true);

}  // namespace bellows
