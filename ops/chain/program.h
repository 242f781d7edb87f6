// A chain of elementwise functions as a flat list of steps, and its derivative as another such
// list. The kernels of `pointwise` run it for each element.
//
// A program is plain data and independent of any device: tests can read it, the CPU runs it step by
// step over a block in cache, and CUDA source is generated from it.
#pragma once
#include <array>
#include <string>
#include <vector>
#include "core/tensor/slot.h"
#include "ops/base/functors.h"

namespace bellows {

// Number of a functor: its index in functors::Steps. Negative numbers are not functions.
template <class F, class... Fs> consteval int number_in(TypeList<Fs...>) {
  int number = 0;
  (void)((std::is_same_v<F, Fs> || (++number, false)) || ...);
  return number;
}
template <class F> inline constexpr int kStep = number_in<F>(functors::Steps());
inline constexpr int kInput = -2, kNumber = -1, kAffine = kStep<functors::Affine>;

struct Step {
  int function;
  std::array<int, 3> from{};  // steps it reads, all earlier ones; kInput: index of the input
  double a = 0, b = 0;        // kNumber: the value is a; affine: scale and shift
  bool operator==(const Step&) const = default;
};

// Limits of a chain. The derivative has at most 5 steps per forward step, plus dy, and needs at
// most two places per forward step.
inline constexpr int kMostInputs = 8, kMostSteps = 32;
inline constexpr int kMostDerivedSteps = 5 * kMostSteps + 1, kMostPlaces = 2 * kMostSteps;

struct StepProgram {
  std::vector<Step> steps;
  std::vector<int> outputs;  // indices of steps
  std::vector<int> inputs;   // for each input the steps read: its index in the chain
  // Place (register or buffer) of each step's result. Results that are not needed at the same time
  // share one. A step never writes a place that it reads.
  std::vector<int> places;
  int place_count = 0;
  mutable Slot slot;  // code that a device compiled; compute thread only
};

// A functor as a chain sees it: its operands and its derivatives.
struct StepFunction {
  std::string name;    // name of the op; derivatives add a mark: "gelu'", "mul'a"
  int arity;           // number of operands
  bool is_op = false;  // neither a derivative nor affine: an expression may call it
  // Function that computes the gradient of the first and second operand. -1: the op is linear, and
  // the gradient is dy times `factor`.
  std::array<int, 2> derivative{-1, -1};
  std::array<double, 2> factor{1, 1};
  bool from_y = false;  // the derivative reads y = value(x), not x
};
const std::vector<StepFunction>& step_functions();
int op_named(const std::string& name);  // -1 if there is none

// Returns the function of a, b and c: a slow switch over all functors.
template <class T, class... Fs> HD T call_step(TypeList<Fs...>, int function, T a, T b, T c) {
  T y = 0;
  int number = 0;
  (void)((number++ == function && (y = functors::call<Fs>(a, b, c), true)) || ...);
  return y;
}

// Appends a step, unless the list has an equal one, and returns its index.
int add_step(std::vector<Step>& steps, const Step& step);

// Returns the program of these steps. Those that no output needs are dropped.
StepProgram make_program(const std::vector<Step>& steps, const std::vector<int>& outputs);

// Parses "relu(x * scale + shift)" into a program; input k of the chain is named inputs[k]. The
// grammar has numbers, names of inputs, + - * /, unary minus, parentheses, and calls of the
// functors in ops/base/functors.h: gelu(x), maximum(x, 0).
//
// x + 2, 2 - x, 2 * x and -x become affine steps; x / 2 stays a division. Common subexpressions are
// computed once. Only arithmetic between constants is evaluated. Throws (exit 2) on a syntax error,
// with the column and the nearest known name, on an input that the text does not use, on a text
// that depends on no input, and on too many inputs or steps.
StepProgram parse_pointwise(const std::string& text, const std::vector<std::string>& inputs);

// Gradients with respect to a chain's n inputs. Inputs 0 .. n - 1 of the program are the chain's,
// input n is dy. The program recomputes the forward results it needs.
struct Derivative {
  StepProgram program;
  // For each input of the chain: the output that is its gradient. Two inputs may share an output.
  static constexpr int kNone = -1, kDy = -2;  // no gradient is wanted; the gradient is dy
  std::vector<int> gradient;
};
// wanted[k]: whether input k needs a gradient.
Derivative derivative(const StepProgram& forward, const std::vector<bool>& wanted);

}  // namespace bellows
