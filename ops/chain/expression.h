// Parser for the text of a pointwise chain: "relu(x * scale + shift)".
//
// The grammar has numbers, names of inputs, + - * /, unary minus, parentheses, and calls of the
// functors in ops/base/functors.h: gelu(x), maximum(x, 0). Only arithmetic between constants is
// evaluated.
#pragma once
#include <string>
#include <vector>
#include "ops/chain/program.h"

namespace bellows {

// Parses `text` into a program; input k of the chain is named inputs[k]. Throws (exit 2) on a
// syntax error, with the column and the nearest known name, on an input that the text does not use,
// on a text that depends on no input, and on too many inputs or steps.
//
// x + 2, 2 - x, 2 * x and -x become affine steps; x / 2 stays a division. Common subexpressions are
// computed once.
StepProgram parse_pointwise(const std::string& text, const std::vector<std::string>& inputs);

}  // namespace bellows
