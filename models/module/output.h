// Output of a model for its loss, which may compute the linear layers at the end of the model
// itself.
#pragma once
#include <utility>
#include <vector>
#include "core/base/module_path.h"
#include "ops/matmul/linear_tail.h"

namespace bellows {

struct ModelOutput {
  ModelOutput(const Tensor& y) : x(y) {}
  // linear_tail(x, tail), not computed yet; it belongs to the current module path.
  ModelOutput(const Tensor& x, std::vector<LinearTailLayer> tail)
      : x(x), tail(std::move(tail)), site(current_site()) {}
  // Returns the output, with history. Runs the tail, if there is one, in each call.
  operator Tensor() const;

  Tensor x;  // the output, or the input of the tail
  std::vector<LinearTailLayer> tail;
  const ModuleSite* site = nullptr;
};

}  // namespace bellows
