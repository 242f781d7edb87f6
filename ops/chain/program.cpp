#include "ops/chain/program.h"
#include <algorithm>

namespace bellows {

// ---- properties of each functor

template <class F> static StepFunction describe() {
  StepFunction f{.name = F::name, .arity = F::arity};
  if constexpr (requires { F::mark; }) f.name += F::mark;
  f.is_op = std::is_base_of_v<functors::Unary, F> || std::is_base_of_v<functors::Binary, F>;
  if constexpr (requires { F::from_y; }) f.from_y = F::from_y;
  if constexpr (requires { F::b_slope; }) f.factor[1] = F::b_slope;
  return f;
}

static int find(const std::vector<StepFunction>& all, const std::string& name) {
  const auto found = std::ranges::find(all, name, &StepFunction::name);
  return found == all.end() ? -1 : int(found - all.begin());
}

template <class... Fs> static std::vector<StepFunction> describe_all(TypeList<Fs...>) {
  std::vector<StepFunction> all{describe<Fs>()...};
  for (StepFunction& f : all)
    if (f.is_op)
      f.derivative = {find(all, f.name + (f.arity == 1 ? "'" : "'a")), find(all, f.name + "'b")};
  return all;
}

const std::vector<StepFunction>& step_functions() {
  static const std::vector<StepFunction> all = describe_all(functors::Steps());
  return all;
}

int op_named(const std::string& name) {
  const int f = find(step_functions(), name);
  return f >= 0 && step_functions()[f].is_op ? f : -1;
}

static int arity(const Step& step) {
  return step.function < 0 ? 0 : step_functions()[step.function].arity;
}

// ---- programs

int add_step(std::vector<Step>& steps, const Step& step) {
  const auto same = std::ranges::find(steps, step);
  if (same != steps.end()) return int(same - steps.begin());
  steps.push_back(step);
  return int(steps.size()) - 1;
}

// A place is free after the last step that reads it. Outputs are read at the end.
static void assign_places(StepProgram& p) {
  const int n = int(p.steps.size());
  std::vector<int> last_use(n, -1);
  for (int s = 0; s < n; ++s)
    for (int k = 0; k < arity(p.steps[s]); ++k) last_use[p.steps[s].from[k]] = s;
  for (const int s : p.outputs) last_use[s] = n;
  std::vector<int> free_from;  // per place: the first step that may write it
  for (int s = 0; s < n; ++s) {
    const auto place = std::ranges::find_if(free_from, [s](int from) { return from <= s; });
    p.places.push_back(int(place - free_from.begin()));
    if (place == free_from.end()) free_from.push_back(0);
    free_from[p.places[s]] = last_use[s] + 1;
  }
  p.place_count = int(free_from.size());
}

StepProgram make_program(const std::vector<Step>& steps, const std::vector<int>& outputs) {
  std::vector<char> needed(steps.size());
  for (const int s : outputs) needed[s] = true;
  for (int s = int(steps.size()) - 1; s >= 0; --s)
    for (int k = 0; needed[s] && k < arity(steps[s]); ++k) needed[steps[s].from[k]] = true;
  StepProgram p;
  std::vector<int> moved(steps.size());
  for (size_t s = 0; s < steps.size(); ++s) {
    if (!needed[s]) continue;
    moved[s] = int(p.steps.size());
    Step step = steps[s];
    for (int k = 0; k < arity(step); ++k) step.from[k] = moved[step.from[k]];
    if (step.function == kInput) {
      p.inputs.push_back(step.from[0]);
      step.from[0] = int(p.inputs.size()) - 1;
    }
    p.steps.push_back(step);
  }
  for (const int s : outputs) p.outputs.push_back(moved[s]);
  assign_places(p);
  return p;
}

// ---- derivative: gradients from the last step to the first, in the order of backward()

// Appends the gradient of operand k of forward step s, where step `dy` is the gradient of s itself.
static int add_gradient(std::vector<Step>& steps, int s, int k, int dy) {
  const Step step = steps[s];
  const StepFunction& f = step_functions()[step.function];
  if (f.derivative[k] < 0) {
    const double factor = step.function == kAffine ? step.a : f.factor[k];
    return factor == 1 ? dy : add_step(steps, {kAffine, {dy}, factor, 0});
  }
  if (f.arity == 2) return add_step(steps, {f.derivative[k], {dy, step.from[0], step.from[1]}});
  return add_step(steps, {f.derivative[0], {dy, f.from_y ? s : step.from[0]}});
}

Derivative derivative(const StepProgram& forward, const std::vector<bool>& wanted) {
  std::vector<Step> steps = forward.steps;
  const int n = int(steps.size());
  std::vector<bool> depends(n);  // whether the step depends on a wanted input
  for (int s = 0; s < n; ++s) {
    if (steps[s].function == kInput) {
      steps[s].from[0] = forward.inputs[steps[s].from[0]];
      depends[s] = wanted[steps[s].from[0]];
    }
    for (int k = 0; k < arity(steps[s]); ++k) depends[s] = depends[s] || depends[steps[s].from[k]];
  }
  const int dy = add_step(steps, {kInput, {int(wanted.size())}});
  std::vector<int> gradient(n, -1);  // per forward step: the step of its gradient so far, or -1
  gradient[forward.outputs[0]] = dy;
  for (int s = n - 1; s >= 0; --s)
    for (int k = 0; gradient[s] >= 0 && k < arity(steps[s]); ++k) {
      const int to = steps[s].from[k];
      if (!depends[to]) continue;
      const int share = add_gradient(steps, s, k, gradient[s]);
      gradient[to] =
          gradient[to] < 0 ? share : add_step(steps, {kStep<functors::Add>, {gradient[to], share}});
    }
  Derivative result;
  result.gradient.assign(wanted.size(), Derivative::kNone);
  std::vector<int> outputs;
  for (int s = 0; s < n; ++s) {
    if (steps[s].function != kInput || !depends[s]) continue;
    const auto same = std::ranges::find(outputs, gradient[s]);
    result.gradient[steps[s].from[0]] =
        gradient[s] == dy ? Derivative::kDy : int(same - outputs.begin());
    if (gradient[s] != dy && same == outputs.end()) outputs.push_back(gradient[s]);
  }
  result.program = make_program(steps, outputs);
  return result;
}

}  // namespace bellows
