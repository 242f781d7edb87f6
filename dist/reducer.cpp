#include "dist/reducer.h"
#include "autograd/backward.h"
#include "core/foreach.h"
#include "core/trace.h"

namespace bellows {

Reducer::Reducer(ProcessGroup& group, const NamedTensors& parameters) : group_(group) {
  if (group.world() == 1) return;
  static trace::Counter& collectives = trace::counter("dist.all_reduces");
  for (const auto& [name, leaf] : parameters) {
    leaves_.push_back(leaf);
    leaf.raise_version();
    group.broadcast(leaf.detach(), 0);
    on_grad_ready(leaf, [this](const Tensor& grad) {
      if (held_) return;
      collectives.add();
      group_.all_reduce(grad);
      sent_.push_back(grad);
    });
  }
  group.wait();
}

Reducer::~Reducer() {
  for (const Tensor& leaf : leaves_) on_grad_ready(leaf, nullptr);
}

void Reducer::wait() {
  if (sent_.empty()) return;
  group_.wait();
  scale_each(sent_, 1.0 / group_.world());
  sent_.clear();
}

}  // namespace bellows
