#include "autograd/amp.h"
#include "autograd/backward.h"
#include "core/config/visitor.h"
#include "core/tensor/copy.h"

namespace bellows {

void visit(Visitor& v, AmpOptions& o) {
  v("dtype", o.dtype, {"off", "bf16", "fp16"}, "precision of matmuls and convolutions");
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

// Records `copy`, which is t in another dtype. Backward casts the gradient to t's dtype, unless t
// is a leaf that takes low-precision gradients.
static Tensor recorded(const Tensor& t, const Tensor& copy) {
  if (!will_record(t)) return copy;
  if (!is_leaf(t))
    return record("cast", copy, {t},
                  [dtype = t.dtype()](const Tensor& dy) { return Grads{cast(dy, dtype)}; });
  return record("cast", copy, {t}, [t = Saved(t)](const Tensor& dy) {
    if (takes_low_grad(t())) return Grads{dy};
    const Tensor g = grad_out(t());
    copy_into(g, dy);
    return Grads{g};
  });
}

static void cast_into(const Tensor& copy, const Tensor& leaf) {
  trace::count<"amp.weight_casts">();
  copy_into(copy, leaf.detach());
  Leaf& meta = leaf_of(leaf);
  meta.low = copy;
  meta.low_version = leaf.storage()->version;
}

// Returns the low-precision copy of `leaf`, cast again only if the leaf has changed. The copy keeps
// its storage unless a closure saved it, because a captured graph reads a fixed address.
static Tensor low_copy(const Tensor& leaf, DType dtype) {
  Leaf& meta = leaf_of(leaf);
  meta.low_read = true;
  const bool fits = meta.low.defined() && meta.low.dtype() == dtype;
  if (fits && meta.low_version == leaf.storage()->version) return meta.low;
  cast_into(fits && meta.low.storage()->saved == 0
                ? meta.low
                : Tensor(leaf.shape(), leaf.strides(), dtype, leaf.device()),
            leaf);
  return meta.low;
}

namespace amp {

Tensor copy_of(const Tensor& leaf) {
  const Leaf& meta = leaf_of(leaf);
  return meta.low_version == leaf.storage()->version ? meta.low : Tensor();
}

Tensor copy_in_use(const Tensor& leaf) {
  const Tensor copy = copy_of(leaf);
  const bool free = copy.defined() && copy.storage()->saved == 0;
  return free && leaf_of(leaf).low_read ? copy : Tensor();
}

void written(const Tensor& leaf, const Tensor& copy) {
  leaf.raise_version();
  if (!copy.defined()) return;
  copy.raise_version();
  Leaf& meta = leaf_of(leaf);
  meta.low = copy;
  meta.low_version = leaf.storage()->version;
  meta.low_read = false;
}

void renew(const Tensor& leaf, const Tensor& copy) {
  if (copy.defined() && copy.storage() != copy_of(leaf).storage()) cast_into(copy, leaf);
}

Tensor to_low(const Tensor& t) {
  if (!t.defined() || t.dtype() != DType::f32 || autocast() == DType::f32) return t;
  return recorded(t, is_leaf(t) && t.is_dense() ? low_copy(t, autocast()) : cast(t, autocast()));
}

Tensor full(const Tensor& t) {
  if (autocast() == DType::f32 || !is_low(t.dtype())) return t;
  return recorded(t, cast(t, DType::f32));
}

}  // namespace amp
}  // namespace bellows
