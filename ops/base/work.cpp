#include "ops/base/work.h"
#include <map>
#include <utility>
#include "core/base/registry.h"

namespace bellows {

static std::map<std::string, StateWork>& stated() {
  static std::map<std::string, StateWork> all;
  return all;
}
AddWork::AddWork(const char* op, StateWork work, const char* file) {
  note_registration(file);
  stated()[op] = work;
}

double result_bytes(const RecordedOp& op) {
  return double(op.y.numel()) * double(size_of(op.dtype()));
}

OpWork single_pass(const RecordedOp& op) {
  double read = 0, gradients = 0;
  for (const Operand& x : op.inputs) {
    read += x.bytes();
    if (x.grad) gradients += x.bytes();
  }
  const double y = result_bytes(op);
  return {{0, read + y}, {0, y + read + gradients}};
}

OpWork product(const RecordedOp& op, double flop) {
  const Operand &a = op.inputs.at(0), &b = op.inputs.at(1);
  const double all = a.bytes() + b.bytes() + result_bytes(op);
  OpWork work{{flop, all}, {}};
  for (const Operand* x : {&a, &b})
    if (x->grad) work.backward += {flop, all};  // each gradient reads dy and the other operand
  return work;
}

OpWork work_of(const RecordedOp& op) {
  const auto found = stated().find(op.name);
  return found == stated().end() ? single_pass(op) : found->second(op);
}

// A cast between f32 and 16 bits moves 6 bytes per element. The optimizer writes the 16-bit copies
// of weights, so these cost nothing forward. Stated here, because autograd/ may not include ops/.
static const AddWork cast_work("cast", [](const RecordedOp& op) {
  const double both = double(op.y.numel()) * 6;
  return OpWork{{0, op.inputs.at(0).leaf ? 0 : both}, {0, both}};
});

// The ops of a segment state their own work, when backward records them.
static const AddWork recompute_work("recompute", [](const RecordedOp&) { return OpWork{}; });

double gradient_sum_bytes(const std::vector<RecordedOp>& ops) {
  std::map<const void*, int> consumers;
  std::map<const void*, double> added;  // bytes by the op that made the tensor
  double bytes = 0;
  for (const RecordedOp& op : ops) {
    for (const Operand& x : op.inputs) {
      if (!x.grad || consumers[x.grad]++ == 0) continue;
      const double own = std::exchange(added[x.grad], 0);
      bytes += own > 0 ? own : 3 * x.bytes();
    }
    if (op.grad) added[op.grad] = work_of(op).added_gradient;
  }
  return bytes;
}

}  // namespace bellows
