#include "ops/base/op.h"
#include <cmath>
#include "core/base/philox.h"
#include "core/base/registry.h"
#include "core/tensor/copy.h"

namespace bellows {

std::vector<OpSpec>& op_specs() {
  static std::vector<OpSpec> specs;
  return specs;
}

AddOp::AddOp(OpSpec&& spec, const char* file) {
  note_registration(file);
  op_specs().push_back(std::move(spec));
}

static double draw(const OpSpec& op, const Philox& rng, const Permutation& order, int64_t i) {
  // Evenly spaced in random order, so that no difference quotient crosses a tie.
  if (op.distinct) return 4.0 * (order(i) + 0.5) / order.n - 2 + (op.positive ? 2.5 : 0);
  const double x = rng.normal(i);
  if (op.positive) return std::abs(x) + 0.5;
  return x + std::copysign(op.keep_from_zero, x);
}

Inputs make_inputs(const OpSpec& op, const Shapes& shapes, DType dtype) {
  int64_t total = 1, first = 0;
  for (const Shape& shape : shapes) total += shape.numel();
  const RngKey key{.seed = 1, .purpose = Purpose::test};
  const Philox rng(key);
  const Permutation order(total, key);
  Inputs inputs;
  for (const Shape& shape : shapes) {
    const Tensor t(shape, DType::f64);
    for (double& x : t.data<double>()) x = draw(op, rng, order, first++);
    inputs.push_back(require_grad(cast(t, dtype)));
  }
  return inputs;
}

}  // namespace bellows
