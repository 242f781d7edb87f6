// FLOP and bytes of a recorded op, for profiles and for `trainer sweep`.
#pragma once
#include "autograd/op_log.h"

namespace bellows {

// FLOP: two for each multiply-add of a product. All other arithmetic costs less than the bytes it
// works on and is not counted. Bytes: tensors that each pass reads and writes, once per pass.
struct Cost {
  double flop = 0, bytes = 0;
  Cost& operator+=(const Cost& o) { return flop += o.flop, bytes += o.bytes, *this; }
};
struct OpWork {
  Cost forward, backward;
  // Further bytes of backward if y has two consumers and backward adds their gradients; 0: a
  // separate pass adds them.
  double added_gradient = 0;
};

// Returns the bytes of y, in the dtype of the first input.
double result_bytes(const RecordedOp& op);
// One pass forward and one backward: forward reads the inputs and writes y; backward reads dy and
// the inputs and writes the gradients that are needed. No FLOP.
OpWork single_pass(const RecordedOp& op);
// A product with `flop` in each of its passes: y, and a gradient for each of the two operands.
OpWork product(const RecordedOp& op, double flop);

using StateWork = OpWork (*)(const RecordedOp& op);
// States the work of an op, in the file that defines it. The work of other ops is single_pass().
struct AddWork {
  AddWork(const char* op, StateWork work, const char* file = __builtin_FILE());
};
OpWork work_of(const RecordedOp& op);

// Bytes of adding the gradients of tensors with several consumers: two read, one written for each
// further consumer, or OpWork::added_gradient for one of these.
double gradient_sum_bytes(const std::vector<RecordedOp>& ops);

}  // namespace bellows
