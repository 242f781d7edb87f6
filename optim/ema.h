// Ema: exponential moving average of a model, for evaluation, checkpoints and exports:
//   average += (1 - decay) (value - average), after each update; integers are not averaged.
// As timm's ModelEma, except that an update which GradScaler skips does not change it. PyTorch's
// AveragedModel with use_buffers copies the values at its first update, where this one averages.
#pragma once
#include "core/tensor/foreach.h"
#include "core/tensor/tensor.h"

namespace bellows {

class Ema {
 public:
  // Averages start as copies of the values. Keeps handles to these tensors. With decay 0 there are
  // no averages, and all functions do nothing.
  Ema(double decay, const NamedTensors& parameters, const NamedTensors& buffers);
  void update(const StepState* state = nullptr);  // no-op if state->found_inf
  void restart();                                 // averages become the values
  void swap() const;                              // exchanges averages and values
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
