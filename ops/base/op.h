// OpSpec: the description of an op from which tests, docs and benchmarks are generated. This file
// also has the checks and counts of operands that ops share.
#pragma once
#include "autograd/record.h"
#include "core/base/trace.h"
#include "core/tensor/kernel.h"

namespace bellows {

using Inputs = std::vector<Tensor>;
using Shapes = std::vector<Shape>;  // one per input
using OpFn = std::function<Tensor(const Inputs&)>;

// Implementation of a fused op: its own kernel, or a composition of simpler ops.
enum class Impl { composed, fused };

struct OpSpec {
  const char* name;           // name, as in its error messages
  const char* math;           // one line, shown by `trainer list ops`
  std::vector<Shapes> cases;  // small input shapes to test
  OpFn run;
  std::vector<Shapes> rejects = {};  // input shapes it must refuse, naming the op
  const char* variant = "";          // distinguishes specs of one op: "stride 2"
  // Input shapes that are split over threads: results must be bitwise equal for any thread count.
  // Benchmarks time these.
  std::vector<Shapes> large = {};
  OpFn composed = nullptr;  // for a fused op: the composition of simpler ops
  // In 16 bits the op rounds after each step, as `composed` does; tests compare it with that.
  bool rounds_each_step = false;
  // Inputs are drawn from a normal distribution; positive ones are |x| + 0.5.
  bool positive = false;
  double keep_from_zero = 0;   // inputs nearer 0 than this are at a kink; tests avoid them
  bool distinct = false;       // all input values differ clearly (max, sort)
  bool differentiable = true;  // if false, only forward and equality of kernels are tested
  bool close_f32 = true;       // tolerance in f32: 1e-5 of the largest magnitude, else 1e-4
  bool elementwise = false;    // takes inputs of any one shape and returns that shape
};

std::vector<OpSpec>& op_specs();
struct AddOp {
  explicit AddOp(OpSpec&& spec, const char* file = __builtin_FILE());
};

// Returns leaves of these shapes on the CPU, drawn as `op` requires (positive, distinct, away from
// a kink) and rounded to `dtype`. The values are the same on every run and for every dtype, so
// failures are reproducible.
Inputs make_inputs(const OpSpec& op, const Shapes& shapes, DType dtype);

// ---- operands

// Throws (exit 2) unless w and b have the dtype of x: kernels read them all as the type of x. b may
// be undefined. Call it after amp::low, which casts only f32 tensors.
inline void check_one_dtype(const char* op, const Tensor& x, const Tensor& w, const Tensor& b) {
  CHECK(w.dtype() == x.dtype(), op, ": x is ", x.dtype(), " and w is ", w.dtype());
  CHECK(!b.defined() || b.dtype() == x.dtype(), op, ": x is ", x.dtype(), " and b is ", b.dtype());
}

// Increments layout.nhwc_ops, the footprint of channels_last, if x, the input of an op on images,
// is (N, C, H, W) in NHWC.
inline void count_layout(const Tensor& x) {
  if (x.rank() == 4 && format_of(x) == kNHWC) trace::count<"layout.nhwc_ops">();
}

}  // namespace bellows
