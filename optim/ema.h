// Exponential moving average of a model, which is what is evaluated, saved and exported then:
//   average += (1 - decay) (value - average), after each update; of integers it is the value.
// As timm's ModelEma and PyTorch's AveragedModel with use_buffers; but theirs moves on, too, where
// GradScaler has skipped the update.
#pragma once
#include "core/tensor/foreach.h"
#include "core/tensor/named.h"

namespace bellows {

class Ema {
 public:
  // Averages start as the values are. decay 0: there is none, and nothing here does anything.
  Ema(double decay, const NamedTensors& parameters, const NamedTensors& buffers);
  void update(const StepState* state = nullptr);  // not where state->found_inf
  void restart();                                 // averages become the values
  void swap() const;                              // averages and values change places
  // What a checkpoint keeps, "ema/conv1.weight".
  const NamedTensors& state() const { return state_; }
  static constexpr const char* kPrefix = "ema/";

 private:
  double decay_;
  NamedTensors state_;
  Tensors values_, averages_;
};

// The model is the averaged one for as long as this lives.
class Averaged {
 public:
  explicit Averaged(const Ema& ema) : ema_(ema) { ema_.swap(); }
  ~Averaged() {
    try {
      ema_.swap();
    } catch (const Error&) {  // the device has failed, which whoever unwinds is about to tell
    }
  }
  Averaged(Averaged&&) = delete;

 private:
  const Ema& ema_;
};

}  // namespace bellows
