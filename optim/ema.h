// Exponential moving average of a model, which is what is evaluated, saved and exported then:
//   average = decay average + (1 - decay) value, after each update; integers are copied.
// As timm's ModelEma and PyTorch's AveragedModel with use_buffers.
#pragma once
#include "core/named.h"

namespace bellows {

class Ema {
 public:
  // Averages start as the values are. decay 0: there is none, and nothing here does anything.
  Ema(double decay, NamedTensors parameters, const NamedTensors& buffers);
  void update();
  void restart();     // averages become the values
  void swap() const;  // averages and values change places
  // What a checkpoint keeps, "ema/conv1.weight".
  NamedTensors state() const;
  static constexpr const char* kPrefix = "ema/";

 private:
  double decay_;
  NamedTensors values_;
  std::vector<Tensor> averages_;
};

// The model is the averaged one for as long as this lives.
class Averaged {
 public:
  explicit Averaged(const Ema& ema) : ema_(ema) { ema_.swap(); }
  ~Averaged() { ema_.swap(); }
  Averaged(const Averaged&) = delete;

 private:
  const Ema& ema_;
};

}  // namespace bellows
