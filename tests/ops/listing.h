// A program of a pointwise chain as text: one line per step, "v2 = mul(v0, v1)".
#pragma once
#include <fmt/format.h>
#include "ops/chain/program.h"

namespace bellows {

inline std::string listing(const StepProgram& p) {
  std::string text;
  for (size_t s = 0; s < p.steps.size(); ++s) {
    const Step& step = p.steps[s];
    text += cat("v", s, " = ");
    if (step.function == kInput) {
      text += cat("input ", p.inputs[step.from[0]], "\n");
    } else if (step.function == kNumber) {
      text += fmt::format("{}\n", step.a);
    } else {
      const StepFunction& f = step_functions()[step.function];
      text += f.name + "(";
      for (int k = 0; k < f.arity; ++k) text += cat(k ? ", v" : "v", step.from[k]);
      if (step.function == kAffine) text += fmt::format(", {}, {}", step.a, step.b);
      text += ")\n";
    }
  }
  for (const int s : p.outputs) text += cat("out v", s, "\n");
  return text;
}

}  // namespace bellows
