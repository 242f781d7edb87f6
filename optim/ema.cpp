#include "optim/ema.h"
#include "core/tensor/copy.h"
#include "core/tensor/step_state.h"

namespace bellows {

Ema::Ema(double decay, const NamedTensors& parameters, const NamedTensors& buffers)
    : decay_(decay) {
  if (decay == 0) return;
  for (const NamedTensors* list : {&parameters, &buffers})
    for (const auto& [name, tensor] : *list) {
      const Tensor value = tensor.detach();
      state_.push_back({kPrefix + name, is_float(value.dtype()) ? empty_like(value) : value});
      if (!is_float(value.dtype())) continue;
      values_.push_back(value);
      averages_.push_back(state_.back().tensor);
    }
  restart();
}

void Ema::update(const StepState* state) { lerp_each(averages_, values_, 1 - decay_, state); }

void Ema::restart() {
  for (size_t i = 0; i < values_.size(); ++i) copy_into(averages_[i], values_[i]);
}

void Ema::swap() const { swap_each(values_, averages_); }

}  // namespace bellows
