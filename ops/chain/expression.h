// The text of a pointwise chain: "relu(x * scale + shift)".
//
// Numbers, the names of inputs, + - * /, a minus in front, parentheses, and the functors of
// ops/base/functors.h as functions: gelu(x), maximum(x, 0). There is nothing else in it, and
// nothing is evaluated but arithmetic between numbers.
#pragma once
#include <string>
#include <vector>
#include "ops/chain/program.h"

namespace bellows {

// The program of the text; its inputs are numbered as `inputs` are. Refuses what it cannot read,
// with the column and the nearest name, an input that the text never mentions, and a text that
// depends on no input.
//
// x + 2, 2 - x, 2 * x, -x and the like are the op affine; x / 2 stays a division. The same part
// written twice is computed once.
StepProgram parse_pointwise(const std::string& text, const std::vector<std::string>& inputs);

}  // namespace bellows
