// Update rule: the arithmetic of one optimizer for one element, split into passes.
//
// The plain form runs each pass over each tensor, as a loop of tensor operations does. The fused
// form runs all passes on an element while it is in registers, over all tensors in one launch. Both
// run the same functor, so they agree bit for bit. Functors write every multiply-add as fma, which
// leaves nothing for a compiler to contract. So rounding depends neither on how passes are grouped
// nor on the device.
#pragma once
#include <algorithm>
#include <cmath>
#include <utility>
#include "core/tensor/foreach.h"
#include "core/tensor/step_state.h"
#include "core/tensor/tensor.h"

namespace bellows {

// Values of the current step, as the functors use them.
struct StepValues {
  double lr;
  double scale;    // factor of the gradients: unscales and clips them
  int64_t update;  // number of the update being applied, from 1
};
// Memory on the weights' device from which every launch reads them.
struct StepSource {
  StepState* state;
  const double* lr_table;  // learning rate by the schedule's index
  int64_t lr_updates;      // entries of the table; the last one stays in force
  double clip_norm;        // 0: no clipping

  HD StepValues values() const {
    const double clip = clip_norm > 0 ? std::min(1.0, clip_norm / (state->grad_norm + 1e-6)) : 1.0;
    return {lr_table[std::min(state->schedule_index(), lr_updates - 1)],
            clip * state->inverse_scale, state->applied + 1};
  }
};

inline constexpr int kAllPasses = -1;

// One launch: all passes of a rule, or one of them, over some weights. All lists are parallel to
// the weights.
struct Launch {
  TensorSpan weights;
  TensorSpan grads;                 // undefined: the weight is left alone. In the weight's dtype,
                                    // or in 16 bits
  TensorSpan buffers;               // the rule's; those of one weight are adjacent
  TensorSpan directions = {};       // d of each weight while passes run one by one
  TensorSpan copies;                // 16-bit copies to write too; undefined: none
  std::span<const int64_t> starts;  // offset of each weight in the flattened list, and its end
  int pass;                         // the only pass to run, from 0, or kAllPasses
  bool last;                        // last launch of this step: advances the state
  StepSource step;
};

// Ends a step: counts it as applied or skipped.
HD inline void finish_step(StepState& s) { ++(s.found_inf ? s.skipped : s.applied); }

// Pointers to one weight's elements. d, the direction, is only in memory while passes run one by
// one.
inline constexpr int kMaxBuffers = 2;
template <class T> struct Row {
  T* w;
  const void* g;  // gradient, of grad_dtype: T or 16 bits
  T* d;
  T* buffer[kMaxBuffers];
  void* copy = nullptr;  // 16-bit copy of w, in copy_dtype; null: none
  DType grad_dtype = dtype_of<T>, copy_dtype = {};

  HD T gradient(int64_t i) const {
    if (grad_dtype == DType::bf16) return static_cast<const Bf16*>(g)[i];
    if (grad_dtype == DType::f16) return static_cast<const F16*>(g)[i];
    return static_cast<const T*>(g)[i];
  }
};

// Returns the row of one weight of a launch, starting at element `from`.
template <class T> Row<T> row_of(const Launch& u, size_t weight, int64_t from) {
  const auto from_on = [&](const Tensor& t) { return t.bytes() + from * size_of(t.dtype()); };
  const Tensor &g = u.grads[weight], &copy = u.copies[weight];
  Row<T> row{u.weights[weight].ptr<T>() + from, from_on(g), nullptr, {}};
  row.grad_dtype = g.dtype();
  if (!u.directions.empty()) row.d = u.directions[weight].ptr<T>() + from;
  const size_t buffers = u.buffers.size() / u.weights.size();
  for (size_t k = 0; k < buffers; ++k)
    row.buffer[k] = u.buffers[weight * buffers + k].ptr<T>() + from;
  if (copy.defined()) row.copy = from_on(copy), row.copy_dtype = copy.dtype();
  return row;
}

// Writes the 16-bit copy of element i, rounded as a cast does.
template <class T> HD void write_copy(const Row<T>& row, int64_t i) {
  if (!row.copy) return;
  if (row.copy_dtype == DType::bf16)
    static_cast<Bf16*>(row.copy)[i] = Bf16(float(row.w[i]));
  else
    static_cast<F16*>(row.copy)[i] = F16(float(row.w[i]));
}

// An update rule with its options, as each entry of the registry makes it.
struct UpdateRule {
  double lr;                         // peak learning rate; schedules multiply it
  std::vector<std::string> buffers;  // names of the state tensors of a weight, initially 0
  int passes = 0;                    // number of passes
  // Runs passes. Returns the number of kernel launches; on the CPU, of kernel calls.
  std::function<int64_t(const Launch&)> run = {};
};

// ---- elementwise rules (optim/elementwise.h)

// l2: weight decay is added to the gradient. decoupled: it is applied to the weight.
enum class Decay { l2, decoupled };

// One element of a weight, as passes see it.
template <class T> struct Element {
  const Row<T>& row;
  int64_t i;
  T g;   // gradient, not unscaled
  T& d;  // direction
  HD T& w() const { return row.w[i]; }
  HD T& buffer(int k) const { return row.buffer[k][i]; }
};

// The passes of a rule in their order. Each is a function of the rule and an element.
template <auto... pass> struct PassList {
  static constexpr int count = sizeof...(pass);
  template <class Rule, class T> static HD void run(const Rule& rule, const Element<T>& e) {
    (pass(rule, e), ...);
  }
  // Calls fn with the wanted pass alone, or with all passes.
  template <class Fn> static void choose(int wanted, const Fn& fn) {
    int k = 0;
    if (wanted == kAllPasses) return fn(PassList());
    ((k++ == wanted ? fn(PassList<pass>()) : void()), ...);
  }
};

// The passes that every elementwise rule begins with. An L2 penalty takes two (scale, sum), as in
// frameworks that add it to the graph.
template <class T> class Elementwise {
 public:
  template <class Options>
  HD Elementwise(const Options& o, const StepValues& now)
      : grad_scale_(T(now.scale)), decay_(T(o.weight_decay)), shrink_(T(now.lr * o.weight_decay)) {}
  static HD void copy(const Elementwise& k, const Element<T>& e) { e.d = k.grad_scale_ * e.g; }
  static HD void scale(const Elementwise& k, const Element<T>& e) { e.d = k.decay_ * e.w(); }
  static HD void sum(const Elementwise& k, const Element<T>& e) {
    e.d = std::fma(k.grad_scale_, e.g, e.d);
  }
  static HD void decay(const Elementwise& k, const Element<T>& e) {
    e.w() = std::fma(-k.shrink_, e.w(), e.w());
  }

 private:
  T grad_scale_, decay_, shrink_;
};

// Calls fn with all passes of a rule that has these options.
template <class Rule, Decay decay, class T, class Fn>
void with_passes(const typename Rule::Options& o, T, const Fn& fn) {
  using First = Elementwise<T>;
  Rule::with_own_passes(
      o, [&]<auto... own>(PassList<own...>) {
        if (o.weight_decay == 0) return fn(PassList<First::copy, own...>());
        if constexpr (decay == Decay::l2)
          fn(PassList<First::scale, First::sum, own...>());
        else
          fn(PassList<First::copy, First::decay, own...>());
      });
}

namespace kernels {
// Runs passes of a rule over the weights. Returns the number of launches.
template <template <class> class Formula, Decay decay>
inline constinit Kernel<int64_t(TensorSpan weights, const Launch& u,
                                const typename Formula<float>::Options& o)>
    update{Formula<float>::name};
}  // namespace kernels

}  // namespace bellows
