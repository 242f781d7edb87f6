// CUDA half of every elementwise rule: one block per chunk of the flattened list of weights. The
// table of addresses is a kernel argument, so a launch copies nothing and a graph can capture it.
#pragma once
#include "core/base/round.h"
#include "core/device/launch.cuh"
#include "core/device/reduce.cuh"
#include "core/device/shared.cuh"
#include "optim/rule.h"

namespace bellows {

// Table of up to kMost weights: 64 bytes each, of the 32 KB that kernel arguments may have.
template <class T, int kMost> struct Rows {
  int count = 0;
  int64_t starts[kMost + 1] = {};  // offset of each weight in the flattened list
  Row<T> rows[kMost];
};
inline constexpr int kFewWeights = 24, kManyWeights = 500;

inline constexpr int64_t kUpdateChunk = 4 * kThreads;
static __device__ unsigned update_ticket;

// Blocks of 256 threads, 4 elements per thread; shared memory for one Rule, which thread 0
// computes. A fused launch keeps d in a register. Values moved per element: w and each buffer read
// and written, g read, and the 16-bit copy written. The last block of the last launch of a step
// advances the state.
template <class Run, class Rule, class T, int kMost>
__global__ void update_chunks(const __grid_constant__ Rows<T, kMost> table,
                              typename Rule::Options options, StepSource step, bool last) {
  auto* const rule = dynamic_shared<Rule>();
  const bool skip = step.state->found_inf;
  if (threadIdx.x == 0) *rule = Rule(options, step.values());
  __syncthreads();
  const int64_t begin = blockIdx.x * kUpdateChunk, all = table.starts[table.count];
  const int64_t end = begin + kUpdateChunk < all ? begin + kUpdateChunk : all;
  int weight = skip ? 0 : entry_at(begin, table.starts, table.count);
  for (int64_t i = begin + threadIdx.x; i < end && !skip; i += blockDim.x) {
    while (weight + 1 < table.count && i >= table.starts[weight + 1]) ++weight;
    const Row<T>& row = table.rows[weight];
    const int64_t at = i - table.starts[weight];
    const T g = row.gradient(at);
    T d = 0;
    Run::run(*rule, Element<T>{row, at, g, Run::count == 1 ? row.d[at] : d});
    if (Run::count > 1) write_copy(row, at);
  }
  if (last && is_last_block(&update_ticket) && threadIdx.x == 0) finish_step(*step.state);
}

template <class Run, class Rule, class T, int kMost>
void launch_update(const Launch& u, const typename Rule::Options& options,
                   const Rows<T, kMost>& table, bool last) {
  const int64_t blocks = ceil_div(table.starts[table.count], kUpdateChunk);
  launch(update_chunks<Run, Rule, T, kMost>,
         {unsigned(std::max<int64_t>(blocks, 1)), kThreads, sizeof(Rule)}, table, options, u.step,
         last);
}

// Updates the weights that have a gradient, up to kMost per launch. Returns the number of launches.
template <class Run, class Rule, int kMost, class T>
int64_t update_in(const Launch& u, const typename Rule::Options& options, T) {
  Rows<T, kMost> table;
  int64_t launches = 1;
  for (size_t i = 0; i < u.weights.size(); ++i) {
    if (!u.grads[i].defined()) continue;
    if (table.count == kMost) {
      launch_update<Run, Rule>(u, options, table, false);
      table.count = 0;
      ++launches;
    }
    table.rows[table.count] = row_of<T>(u, i, 0);
    table.starts[table.count + 1] = table.starts[table.count] + u.weights[i].numel();
    ++table.count;
  }
  launch_update<Run, Rule>(u, options, table, u.last);
  return launches;
}

template <template <class> class Formula, Decay decay>
int64_t update_cuda(TensorSpan weights, const Launch& u,
                    const typename Formula<float>::Options& options) {
  int64_t launches = 0;
  visit_float(weights.front().dtype(), [&]<class T>(T zero) {
    using Rule = Formula<T>;
    with_passes<Rule, decay>(options, zero, [&]<class All>(All) {
      All::choose(u.pass, [&]<class Run>(Run) {
        if constexpr (Run::count == 1) {
          launches = update_in<Run, Rule, 1>(u, options, zero);
        } else if (weights.size() <= kFewWeights) {
          launches = update_in<Run, Rule, kFewWeights>(u, options, zero);
        } else {
          launches = update_in<Run, Rule, kManyWeights>(u, options, zero);
        }
      });
    });
  });
  return launches;
}

// Registers the CUDA half of a rule; optim/rule_cpu.h has registered its name.
template <template <class> class Formula, class Options, Decay decay> struct AddRuleOnCuda {
  AddRuleOnCuda(const char*, const char*, const char* file = __builtin_FILE()) {
    kernels::update<Formula, decay>.on(Device::cuda, update_cuda<Formula, decay>, file);
  }
};
template <template <class> class Formula, class Options, Decay decay>
using AddRule = AddRuleOnCuda<Formula, Options, decay>;

}  // namespace bellows
