#include "autograd/amp.h"
#include "autograd/backward.h"
#include "core/copy.h"
#include "core/trace.h"

namespace bellows {

void visit(Visitor& v, AmpOptions& o) {
  v("dtype", o.dtype, {"off", "bf16", "fp16"}, "in which products are computed");
  v.group("scaler", o.scaler);
}

DType AmpOptions::low() const {
  constexpr DType all[] = {DType::f32, DType::bf16, DType::f16};
  return all[static_cast<int>(dtype)];
}

DType& autocast() {
  static constinit thread_local DType low = DType::f32;
  return low;
}

// A copy of t in another dtype, with history.
static Tensor recorded(const Tensor& t, const Tensor& copy) {
  if (!will_record(t)) return copy;
  if (!is_leaf(t))
    return record("cast", copy, {t},
                  [dtype = t.dtype()](const Tensor& dy) { return Grads{cast(dy, dtype)}; });
  return record("cast", copy, {t}, [t = Saved(t)](const Tensor& dy) {
    const Tensor g = grad_out(t());
    copy_into(g, dy);
    return Grads{g};
  });
}

// Written again, unless a closure keeps it: whoever knows it by its storage finds it there.
static Tensor low_copy(const Tensor& leaf, DType dtype) {
  GradMeta& meta = *grad_meta(leaf);
  const uint32_t version = leaf.storage()->version;
  if (meta.low.defined() && meta.low.dtype() == dtype && meta.low_version == version)
    return meta.low;
  const bool reusable =
      meta.low.defined() && meta.low.dtype() == dtype && meta.low.storage()->saved == 0;
  if (!reusable) meta.low = Tensor(leaf.shape(), leaf.strides(), dtype, leaf.device());
  copy_into(meta.low, leaf.detach());
  meta.low_version = version;
  return meta.low;
}

namespace amp {

Tensor to_low(const Tensor& t) {
  if (!t.defined() || t.dtype() != DType::f32 || autocast() == DType::f32) return t;
  return recorded(t, is_leaf(t) && t.is_dense() ? low_copy(t, autocast()) : cast(t, autocast()));
}

Tensor full(const Tensor& t) {
  if (autocast() == DType::f32 || !is_low(t.dtype())) return t;
  return recorded(t, cast(t, DType::f32));
}

void count_low_op() {
  static trace::Counter& ops = trace::counter("amp.low_ops");
  ops.add();
}

}  // namespace amp
}  // namespace bellows
