#include "optim/ema.h"
#include "core/copy.h"
#include "core/foreach.h"

namespace bellows {

Ema::Ema(double decay, NamedTensors parameters, const NamedTensors& buffers) : decay_(decay) {
  if (decay == 0) return;
  values_ = std::move(parameters);
  values_.insert(values_.end(), buffers.begin(), buffers.end());
  for (NamedTensor& value : values_) {
    value.tensor = value.tensor.detach();
    averages_.push_back(clone(value.tensor));
  }
}

void Ema::update() {
  for (size_t i = 0; i < values_.size(); ++i) {
    const Tensor& value = values_[i].tensor;
    if (!is_float(value.dtype())) {
      copy_into(averages_[i], value);
      continue;
    }
    scale_each({&averages_[i], 1}, decay_);
    add_into(averages_[i], value, 1 - decay_);
  }
}

void Ema::restart() {
  for (size_t i = 0; i < values_.size(); ++i) copy_into(averages_[i], values_[i].tensor);
}

void Ema::swap() const {
  for (size_t i = 0; i < values_.size(); ++i) {
    const Tensor value = clone(values_[i].tensor);
    copy_into(values_[i].tensor, averages_[i]);
    copy_into(averages_[i], value);
  }
}

NamedTensors Ema::state() const {
  NamedTensors all;
  for (size_t i = 0; i < values_.size(); ++i)
    all.push_back({kPrefix + values_[i].name, averages_[i]});
  return all;
}

}  // namespace bellows
