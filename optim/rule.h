// An update rule is the arithmetic of one optimizer for one element, cut into passes.
//
// The plain form sends each pass over each tensor, as a loop of tensor operations does; the fused
// form runs all passes on an element while it is in registers, over all tensors in one launch. Both
// run the same functor, so they agree bit for bit. Wherever a product meets a sum the functors say
// fma: nothing is left for a compiler to contract, so passes round alike however they are grouped,
// on every device.
#pragma once
#include <algorithm>
#include <utility>
#include "core/tensor/foreach.h"
#include "core/tensor/step_state.h"

namespace bellows {

// One launch: some passes of a rule over some weights. All lists run parallel to the weights.
struct Launch {
  TensorSpan weights;
  TensorSpan grads;                 // undefined: the weight is left alone
  TensorSpan buffers;               // of the rule, those of one weight side by side
  TensorSpan directions = {};       // d of each weight while passes run one by one
  TensorSpan copies;                // in 16 bits, written along; undefined: there is none
  std::span<const int64_t> starts;  // of each weight in the flattened list; one more for the end
  unsigned passes;                  // the rule's bits
  bool last;                        // of this step: it moves the state on
  StepState* state;                 // on the device of the weights, as is
  const double* lr_table;           // the learning rate by applied updates
  int64_t lr_updates;               // entries of the table; the last one stays in force
  double clip_norm;                 // 0: no clipping
};

// What varies by step, as the functors want it.
struct Now {
  double lr;
  double scale;    // of the gradients: unscaled and clipped
  int64_t update;  // that is being applied, from 1
};
HD inline Now now_of(const StepState& s, const double* lr_table, int64_t lr_updates,
                     double clip_norm) {
  const double clip = clip_norm > 0 ? std::min(1.0, clip_norm / (s.grad_norm + 1e-6)) : 1.0;
  return {lr_table[std::min(s.applied, lr_updates - 1)], clip * s.inverse_scale, s.applied + 1};
}

// After the last launch of a step.
HD inline void move_on(StepState& s) { ++(s.found_inf ? s.skipped : s.applied); }

// The elements of one weight. d, the direction to go, is a register in the fused form.
inline constexpr int kMaxBuffers = 2;
template <class T> struct Row {
  T* w;
  const T* g;
  T* d;
  T* buffer[kMaxBuffers];
  Bf16* bf16 = nullptr;  // the copy of w, in the one or the other
  F16* f16 = nullptr;
};

// Of one weight of a launch, from that element on.
template <class T> Row<T> row_of(const Launch& u, size_t weight, int64_t from) {
  Row<T> row{u.weights[weight].ptr<T>() + from, u.grads[weight].ptr<T>() + from, nullptr, {}};
  if (!u.directions.empty()) row.d = u.directions[weight].ptr<T>() + from;
  const size_t buffers = u.buffers.size() / u.weights.size();
  for (size_t k = 0; k < buffers; ++k)
    row.buffer[k] = u.buffers[weight * buffers + k].ptr<T>() + from;
  const Tensor& copy = u.copies[weight];
  if (copy.defined() && copy.dtype() == DType::bf16) row.bf16 = copy.ptr<Bf16>() + from;
  if (copy.defined() && copy.dtype() == DType::f16) row.f16 = copy.ptr<F16>() + from;
  return row;
}

// Rounded as a cast rounds.
template <class T> HD void write_copy(const Row<T>& row, int64_t i) {
  if (row.bf16) row.bf16[i] = Bf16(float(row.w[i]));
  if (row.f16) row.f16[i] = F16(float(row.w[i]));
}

// Calls fn(std::integral_constant<unsigned, passes>()), where these are among the rule's sets.
template <class Fn, unsigned... sets>
void with_passes(unsigned passes, std::integer_sequence<unsigned, sets...>, const Fn& fn) {
  const bool known =
      ((passes == sets && (fn(std::integral_constant<unsigned, sets>()), true)) || ...);
  INVARIANT(known, "the passes ", passes, " are not among the rule's sets");
}

// What an entry of the collection makes of its options.
struct UpdateRule {
  double lr;                         // the peak: schedules multiply it
  std::vector<std::string> buffers;  // kept for each weight, zeros at first
  std::vector<unsigned> passes;      // one bit each, in their order
  std::function<void(const Launch&)> run;
};

}  // namespace bellows
