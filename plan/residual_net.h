// Options, as YAML, for the proofs of toggles: a model with the module sequences of the batch_norm
// and shortcut fusions. Small and shallow, so that rounding errors do not grow during training.
#pragma once

namespace bellows {

inline constexpr const char* kResidualNet = R"(
optimizer.lr: 0.01
train.epochs: 3
model:
  name: layers
  layers:
    - {name: conv2d, out: 4, stride: 3}
    - batch_norm
    - relu
    - {name: residual, layers: [{name: conv2d, out: 4, padding: 1}, batch_norm]}
    - flatten
    - {name: linear, out: 10}
)";

}  // namespace bellows
