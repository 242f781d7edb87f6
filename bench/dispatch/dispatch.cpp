// What an op costs beyond its arithmetic: ns per call on tensors of eight floats, dispatch,
// allocation and (with grad) recording and release included; then the loss of a small net.
//
//   taskset -c 0 build/bench/bench_dispatch
//
// CPU time of this process, the fastest and the median of 31 rounds: other load on the machine can
// only add to it.
#include <fmt/core.h>
#include <omp.h>
#include <time.h>
#include <algorithm>
#include "autograd/backward.h"
#include "core/foreach.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"

using namespace bellows;

static double cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e9 * double(t.tv_sec) + double(t.tv_nsec);
}

static void measure(const char* what, int calls, const auto& call) {
  std::array<double, 31> rounds;
  for (double& round : rounds) {
    const double begin = cpu_ns();
    for (int i = 0; i < calls; ++i) call();
    round = (cpu_ns() - begin) / calls;
  }
  std::ranges::sort(rounds);
  fmt::print("{:<44} {:8.1f} {:8.1f}\n", what, rounds.front(), rounds[rounds.size() / 2]);
}

int main() {
  omp_set_num_threads(1);
  configure_allocator(Device::cpu, {.caching = true});
  const Tensor a = full({8}, 1), b = full({8}, 2), leaf = require_grad(full({8}, 1));
  fmt::print("{:<44} {:>8} {:>8}\n", "ns per call", "fastest", "median");
  measure("empty({8})", 20000, [&] { empty({8}, a); });
  measure("add, no grad", 20000, [&] { add(a, b); });
  measure("add, grad", 20000, [&] { add(leaf, b); });
  measure("mul, grad (saves both inputs)", 20000, [&] { mul(leaf, b); });
  measure("relu, grad", 20000, [&] { relu(leaf); });
  {
    const NoGrad guard;
    measure("relu, under NoGrad", 20000, [&] { relu(leaf); });
  }
  const Tensor scalar = require_grad(full({}, 1));
  measure("backward of one affine", 20000, [&] { backward(mul(scalar, 2)); });

  const Tensor logits = require_grad(full({64, 10}, 0.1)), one = require_grad(full({1, 10}, 0.1));
  const Tensor labels = full({64}, 3, DType::i64), label = full({1}, 3, DType::i64);
  for (const Impl impl : {Impl::fused, Impl::composed}) {
    const char* name = impl == Impl::fused ? "fused" : "composed";
    measure(fmt::format("cross_entropy (64, 10) {}, and backward", name).c_str(), 1000,
            [&] { backward(cross_entropy(logits, labels, {}, impl)); });
    measure(fmt::format("cross_entropy (1, 10) {}, and backward", name).c_str(), 1000,
            [&] { backward(cross_entropy(one, label, {}, impl)); });
  }
}
