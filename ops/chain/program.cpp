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

namespace {

class Differentiate {
 public:
  Differentiate(const StepProgram& forward, const std::vector<bool>& wanted)
      : steps_(forward.steps), share_(steps_.size(), -1), wanted_(steps_.size()) {
    result_.gradient.assign(wanted.size(), Derivative::kNone);
    for (size_t s = 0; s < steps_.size(); ++s) {
      Step& step = steps_[s];
      if (step.function == kInput) {
        step.from[0] = forward.inputs[step.from[0]];
        wanted_[s] = wanted[step.from[0]];
      }
      for (int k = 0; k < arity(step); ++k) wanted_[s] = wanted_[s] || wanted_[step.from[k]];
    }
    dy_ = add_step(steps_, {kInput, {int(wanted.size())}});
    share_[forward.outputs[0]] = dy_;
    for (int s = int(share_.size()) - 1; s >= 0; --s)
      if (share_[s] >= 0) send_from(s);
  }

  Derivative result() && {
    std::vector<int> outputs;
    for (size_t s = 0; s < share_.size(); ++s) {
      if (steps_[s].function != kInput || !wanted_[s]) continue;
      const auto same = std::ranges::find(outputs, share_[s]);
      result_.gradient[steps_[s].from[0]] =
          share_[s] == dy_ ? Derivative::kDy : int(same - outputs.begin());
      if (share_[s] != dy_ && same == outputs.end()) outputs.push_back(share_[s]);
    }
    result_.program = make_program(steps_, outputs);
    return std::move(result_);
  }

 private:
  void send_from(int s) {
    const Step step = steps_[s];
    for (int k = 0; k < arity(step); ++k)
      if (wanted_[step.from[k]]) send(step.from[k], share_of_operand(s, step, k));
  }
  int share_of_operand(int s, const Step& step, int k) {
    const StepFunction& f = step_functions()[step.function];
    const int dy = share_[s];
    if (f.derivative[k] < 0) return times(dy, step.function == kAffine ? step.a : f.factor[k]);
    if (f.arity == 2) return add_step(steps_, {f.derivative[k], {dy, step.from[0], step.from[1]}});
    return add_step(steps_, {f.derivative[0], {dy, f.from_y ? s : step.from[0]}});
  }
  int times(int s, double factor) {
    return factor == 1 ? s : add_step(steps_, {kAffine, {s}, factor, 0});
  }
  void send(int to, int share) {
    if (share_[to] >= 0) share = add_step(steps_, {kStep<functors::Add>, {share_[to], share}});
    share_[to] = share;
  }

  std::vector<Step> steps_;
  std::vector<int> share_;    // per forward step: the step that is its gradient so far, or -1
  std::vector<bool> wanted_;  // depends on a wanted input
  int dy_;
  Derivative result_;
};

}  // namespace

Derivative derivative(const StepProgram& forward, const std::vector<bool>& wanted) {
  return Differentiate(forward, wanted).result();
}

}  // namespace bellows
