// OpSpec: what an op tells the world about itself. Tests, docs and benchmarks read nothing else.
#pragma once
#include "autograd/record.h"
#include "core/base/registry.h"
#include "core/tensor/kernel.h"

namespace bellows {

using Inputs = std::vector<Tensor>;
using Shapes = std::vector<Shape>;  // one per input
using OpFn = std::function<Tensor(const Inputs&)>;

// How a fused op is run: by its own kernel, or composed of simpler ops.
enum class Impl { composed, fused };

struct OpSpec {
  const char* name;           // as its error messages say it
  const char* math;           // one line, shown by `trainer list ops`
  std::vector<Shapes> cases;  // small shapes to test
  OpFn run;
  std::vector<Shapes> rejects = {};  // shapes it must refuse, with a message that names the op
  const char* variant = "";          // tells specs of one op apart: "stride 2"
  // Shapes that are split over threads: their bits must not depend on how many; the ones to time.
  std::vector<Shapes> large = {};
  OpFn composed = nullptr;  // a fused op carries its twin, made of simpler ops
  // In 16 bits it rounds after each step, as its composed twin does: what it gives is held to
  // that.
  bool rounds_each_step = false;
  // Inputs are normal; positive ones are their absolute value plus 0.5.
  bool positive = false;
  double keep_from_zero = 0;   // inputs nearer 0 than this sit on a kink; tests avoid them
  bool distinct = false;       // no two inputs are near each other (max, sort)
  bool differentiable = true;  // otherwise only forward and equality of kernels are tested
  bool close_f32 = true;       // tolerance 1e-5 of the largest magnitude in f32; else 1e-4
  bool elementwise = false;    // takes inputs of any one shape, and returns that shape
};

inline std::vector<OpSpec>& op_specs() {
  static std::vector<OpSpec> specs;
  return specs;
}
struct AddOp {
  explicit AddOp(OpSpec spec, const char* file = __builtin_FILE()) {
    registered_files().insert(file);
    op_specs().push_back(std::move(spec));
  }
};

}  // namespace bellows
