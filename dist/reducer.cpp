#include "dist/reducer.h"
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "core/tensor/foreach.h"

namespace bellows {

Reducer::Reducer(ProcessGroup& group, const NamedTensors& parameters) : group_(group) {
  if (group.world() == 1) return;
  for (const auto& [name, leaf] : parameters) {
    const size_t i = leaves_.size();
    leaves_.push_back(leaf);
    leaf.raise_version();
    group.broadcast(leaf.detach(), 0);
    on_grad_ready(leaf, [this, i](const Tensor&) {
      if (!held_) return send(i);
      waiting_.insert(i);
    });
  }
  group.wait();
}

void Reducer::send(size_t i) {
  static trace::Counter& collectives = trace::counter("dist.all_reduces");
  collectives.add();
  waiting_.erase(i);
  sent_.push_back(grad(leaves_[i]));
  group_.all_reduce(sent_.back());
}

Reducer::~Reducer() {
  for (const Tensor& leaf : leaves_) on_grad_ready(leaf, nullptr);
}

void Reducer::wait() {
  for (const size_t i : std::exchange(waiting_, {}))
    if (grad(leaves_[i]).defined()) send(i);  // zero_grad() may have dropped it
  if (sent_.empty()) return;
  group_.wait();
  scale_each(sent_, 1.0 / group_.world());
  sent_.clear();
}

}  // namespace bellows
