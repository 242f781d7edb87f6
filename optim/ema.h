// Ema: exponential moving average of a model, for evaluation, checkpoints and exports:
//   average += (1 - decay) (value - average), after each update; integers are not averaged.
// As timm's ModelEma, except that an update which GradScaler skips does not change it. PyTorch's
// AveragedModel with use_buffers copies the values at its first update, where this one averages.
#pragma once
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"

namespace bellows {

class Ema {
 public:
  // Averages start as copies of the values. Keeps handles to these tensors. With decay 0 there are
  // no averages, and all functions do nothing.
  Ema(double decay, const NamedTensors& parameters, const NamedTensors& buffers) : decay_(decay) {
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
  // No-op if state->found_inf.
  void update(const StepState* state = nullptr) {
    lerp_each(averages_, values_, 1 - decay_, state);
  }
  void restart() {  // averages become the values
    for (size_t i = 0; i < values_.size(); ++i) copy_into(averages_[i], values_[i]);
  }
  void swap() const { swap_each(values_, averages_); }  // exchanges averages and values
  // State for a checkpoint: the averages, and the integer buffers; "ema/conv1.weight".
  const NamedTensors& state() const { return state_; }
  static constexpr const char* kPrefix = "ema/";

 private:
  double decay_;
  NamedTensors state_;
  Tensors values_, averages_;
};

// Swaps the averages into the model while it lives.
class EmaScope {
 public:
  explicit EmaScope(const Ema& ema) : ema_(ema) { ema_.swap(); }
  ~EmaScope() {
    try {
      ema_.swap();
    } catch (const Error&) {  // the device has failed; its first error is already in flight
    }
  }
  EmaScope(EmaScope&&) = delete;

 private:
  const Ema& ema_;
};

}  // namespace bellows
