// A chain of elementwise functions as a flat list of steps, and its derivative as another one: what
// the kernels of `pointwise` run, once for each element.
//
// A program is data: nothing of the machine is in it, so a test can read it, a CPU can run it step
// by step over a block in cache, and CUDA source can be written from it.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>
#include "core/tensor/slot.h"
#include "ops/base/functors.h"

namespace bellows {

// A functor's number is its place in functors::Steps; below 0 is what is no function.
template <class F, class... Fs> consteval int number_in(TypeList<Fs...>) {
  int number = 0;
  (void)((std::is_same_v<F, Fs> || (++number, false)) || ...);
  return number;
}
template <class F> inline constexpr int kStep = number_in<F>(functors::Steps());
inline constexpr int kInput = -2, kNumber = -1, kAffine = kStep<functors::Affine>;

struct Step {
  int function;
  std::array<int, 3> from{};  // the steps whose results it takes, all earlier; of an input, which
  double a = 0, b = 0;        // a number: a; affine: scale and shift
  bool operator==(const Step&) const = default;
};

// Bounds on the chains that are taken; a derivative has at most 5 steps for each of the forward,
// and its dy, and needs no more than two places for each.
inline constexpr int kMostInputs = 8, kMostSteps = 32;
inline constexpr int kMostDerivedSteps = 5 * kMostSteps + 1, kMostPlaces = 2 * kMostSteps;

struct StepProgram {
  std::vector<Step> steps;
  std::vector<int> outputs;  // steps
  std::vector<int> inputs;   // that the steps number from 0: which of the chain's each one is
  // Places for the results of the steps, shared by those that are never needed at the same time. A
  // step's place is none of those it reads.
  std::vector<int> places;
  int place_count = 0;
  mutable Slot slot;  // what a device has made of the program; for the compute thread
};

// What is known of a functor.
struct StepFunction {
  std::string name;    // of the op; a derivative's has a mark: "gelu'", "mul'a"
  int arity;           // steps that it takes
  bool is_op = false;  // not a derivative, nor affine: an expression may call it
  // What gives the share of the first and the second operand: dy itself times a number where the op
  // is linear and there is no function.
  std::array<int, 2> derivative{-1, -1};
  std::array<double, 2> factor{1, 1};
  bool from_y = false;  // the derivative takes y = value(x), not x
};
const std::vector<StepFunction>& step_functions();
int op_named(const std::string& name);  // its number; -1 if there is none

// y = the function of a, b and c; what runs a step where nothing better is known.
template <class T, class... Fs> HD T call_step(TypeList<Fs...>, int function, T a, T b, T c) {
  T y = 0;
  int number = 0;
  (void)((number++ == function && (y = functors::call<Fs>(a, b, c), true)) || ...);
  return y;
}

// Steps in a list that never holds the same one twice.
int add_step(std::vector<Step>& steps, const Step& step);

// The program of these steps, with one output; steps that nobody needs are left out.
StepProgram make_program(const std::vector<Step>& steps, int output);

// The gradients of a chain's n inputs. The program's inputs are the chain's and dy, which is input
// n; what it needs of the forward's results it computes again.
struct Derivative {
  StepProgram program;
  // Of each input: which of the outputs its gradient is. Two inputs may have the same one.
  static constexpr int kNone = -1, kDy = -2;  // nobody wants it; it is dy itself
  std::vector<int> gradient;
};
Derivative derivative(const StepProgram& forward, const std::vector<bool>& wanted);

// A line for each step, "v2 = mul(v0, v1)": for people, tests and the keys of caches.
std::string listing(const StepProgram& program);

}  // namespace bellows
