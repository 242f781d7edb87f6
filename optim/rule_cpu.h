// CPU half of every elementwise rule, and their registration.
#pragma once
#include "core/config/choice.h"
#include "core/device/parallel.h"
#include "optim/rule.h"

namespace bellows {

// Writes 16-bit copies of n values, as a cast does, while these are in the cache.
template <class Low, class T> void round_to(Low* copy, const T* w, int64_t n) {
  std::transform(w, w + n, copy, [](T value) { return Low(float(value)); });
}

// g: gradients of the n elements. Rule and row are passed by value: stores to w must not make the
// compiler reload them. The gradient is passed by value, too: GCC vectorizes no loop with a lambda.
template <class Run, class Rule, class T>
void run_row(Rule rule, Row<T> row, const T* g, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    T d = 0;
    Run::run(rule, Element<T>{row, i, g[i], Run::count == 1 ? row.d[i] : d});
  }
  if (!row.copy) return;
  if (row.copy_dtype == DType::bf16)
    round_to(static_cast<Bf16*>(row.copy), row.w, n);
  else
    round_to(static_cast<F16*>(row.copy), row.w, n);
}

// Elements [from, from + n) of a weight. 16-bit gradients are widened in pieces that stay in the
// cache.
template <class Run, class T, class Rule>
void run_part(const Rule& rule, const Launch& u, size_t weight, int64_t from, int64_t n) {
  constexpr int64_t kPiece = 1024;
  visit_stored(u.grads[weight].dtype(), [&]<class G>(G) {
    const G* const g = u.grads[weight].ptr<G>() + from;
    if constexpr (std::is_same_v<G, T>) {
      run_row<Run>(rule, row_of<T>(u, weight, from), g, n);
    } else {
      T wide[kPiece];
      for (int64_t i = 0; i < n; i += kPiece) {
        const int64_t piece = std::min(kPiece, n - i);
        std::transform(g + i, g + i + piece, wide, [](G value) { return T(value); });
        run_row<Run>(rule, row_of<T>(u, weight, from + i), wide, piece);
      }
    }
  });
}

// Splits the flattened list into chunks, so that threads share the work evenly, whether weights are
// few and large or many and small.
template <class Run, class Rule, class T> void run_all(const Rule& rule, const Launch& u, T) {
  // Waking other threads takes about as long as updating 2^16 elements.
  const int64_t first = u.starts.front(), n = u.starts.back() - first;
  parallel_for(n, n <= 1 << 16 ? 1 << 16 : 1 << 14, [&](int64_t begin, int64_t end) {
    const auto after = std::ranges::upper_bound(u.starts, begin += first);
    end += first;
    for (size_t k = after - u.starts.begin() - 1; begin < end; begin = u.starts[++k]) {
      const int64_t stop = std::min(end, u.starts[k + 1]);
      if (!u.grads[k].defined()) continue;
      run_part<Run, T>(rule, u, k, begin - u.starts[k], stop - begin);
    }
  });
}

template <template <class> class Formula, Decay decay>
int64_t update_cpu(TensorSpan weights, const Launch& u,
                   const typename Formula<float>::Options& options) {
  visit_float(weights.front().dtype(), [&]<class T>(T zero) {
    if (u.step.state->found_inf) return;
    const Formula<T> rule(options, u.step.values());
    with_passes<Formula<T>, decay>(options, zero, [&]<class All>(All) {
      All::choose(u.pass, [&]<class Run>(Run) { run_all<Run>(rule, u, zero); });
    });
  });
  if (u.last) finish_step(*u.step.state);
  return 1;
}

template <template <class> class Formula, class Options, Decay decay>
UpdateRule elementwise_rule(const Options& o) {
  UpdateRule rule = Formula<float>::rule(o);
  with_passes<Formula<float>, decay>(o, 0.f, [&]<class All>(All) { rule.passes = All::count; });
  rule.run = [o](const Launch& u) { return kernels::update<Formula, decay>(u.weights, u, o); };
  return rule;
}

// Registers a rule under a name, and its CPU half.
template <template <class> class Formula, class Options, Decay decay> struct AddRuleOnCpu {
  AddRuleOnCpu(const char* name, const char* help, const char* file = __builtin_FILE()) {
    AddEntry<UpdateRule()>(name, help, elementwise_rule<Formula, Options, decay>, {}, file);
    kernels::update<Formula, decay>.on(Device::cpu, update_cpu<Formula, decay>, file);
  }
};
template <template <class> class Formula, class Options, Decay decay>
using AddRule = AddRuleOnCpu<Formula, Options, decay>;

}  // namespace bellows
