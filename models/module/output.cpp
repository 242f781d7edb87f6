#include "models/module/output.h"
#include <typeinfo>
#include "core/base/trace.h"
#include "models/module/sequential.h"

namespace bellows {

ModelOutput::operator Tensor() const {
  if (tail.empty()) return x;
  const ModuleScope at(*site);
  return linear_tail(x, tail, Impl::fused);
}

ModelOutput Module::for_loss(const Tensor& x) {
  const ModuleScope at(*site_);
  const trace::Range range(kind());
  return forward_for_loss(x);
}

ModelOutput Module::forward_for_loss(const Tensor& x) { return forward(x); }

// A class derived from Sequential does more in forward(), such as adding a shortcut.
ModelOutput Sequential::forward_for_loss(const Tensor& x) {
  if (typeid(*this) != typeid(Sequential)) return forward(x);
  ModelOutput y = x;
  for (const Child& child : children()) y = child.module->for_loss(y);
  return y;
}

}  // namespace bellows
