#include "dist/reducer.h"
#include "autograd/backward.h"
#include "core/base/trace.h"

namespace bellows {

Reducer::Reducer(ProcessGroup& group, const NamedTensors& parameters) : group_(group) {
  if (group.world() == 1) return;
  for (const auto& [name, leaf] : parameters) {
    const size_t i = leaves_.size();
    leaves_.push_back(leaf);
    leaf.raise_version();
    pending_.push_back(group.broadcast(leaf.detach(), 0, name));
    on_grad_ready(leaf, [this, i](const Tensor&) {
      if (!held_) return send(i);
      waiting_.insert(i);
    });
  }
  wait_for_all();
}

void Reducer::send(size_t i) {
  static trace::Counter& collectives = trace::counter("dist.all_reduces");
  collectives.add();
  waiting_.erase(i);
  const Tensor& sent = grad(leaves_[i]);
  pending_.push_back(group_.all_reduce(sent, Reduction::mean, cat("gradient ", i)));
}

Reducer::~Reducer() {
  for (const Tensor& leaf : leaves_) on_grad_ready(leaf, nullptr);
}

void Reducer::wait() {
  for (const size_t i : std::exchange(waiting_, {}))
    if (grad(leaves_[i]).defined()) send(i);  // zero_grad() may have dropped it
  wait_for_all();
}

void Reducer::wait_for_all() {
  for (const WorkPtr& work : std::exchange(pending_, {})) work->wait();
}

}  // namespace bellows
