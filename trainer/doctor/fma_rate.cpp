// The ceiling of a CPU: independent multiply-adds that never leave the registers.
#include <omp.h>
#include "ops/lanes.h"
#include "trainer/bench/timing.h"
#include "trainer/doctor/stress.h"

namespace bellows {

namespace {
// Twelve chains cover the latency of two units, and leave four of AVX2's registers for the rest.
constexpr int kChains = 12, kTurns = 4096;

template <class T> struct Chains {
  T& sum;        // of what they come to, so that the work cannot be left out
  double& flop;  // of one call

  // In vectors of L floats, or half as many doubles.
  template <int L> [[gnu::always_inline]] void operator()() const {
    constexpr int kLanes = L * sizeof(float) / sizeof(T);
    Lanes<T, kLanes> chains[kChains] = {}, factor = {}, term = {};
    factor += T(0.5);
    term += sum;
    for (int turn = 0; turn < kTurns; ++turn)
#pragma GCC unroll 12
      for (auto& chain : chains) chain = chain * factor + term;
    for (const auto& chain : chains) sum += chain[0] * T(1e-6);
    flop = 2.0 * kTurns * kChains * kLanes;
  }
};
}  // namespace

template <class T> static double rate_of() {
  constexpr int kCalls = 64;
  double flop = 0;
  static volatile double kept = 0;
  const Call all_threads = [&] {
#pragma omp parallel
    {
      T sum = 1;
      double mine = 0;
      for (int i = 0; i < kCalls; ++i) in_lanes<float>(Chains<T>{sum, mine});
#pragma omp critical
      {
        kept = kept + double(sum);
        flop = kCalls * mine;
      }
    }
  };
  const Timing timing = time_in_turns({all_threads}, Device::cpu)[0];
  return flop * omp_get_max_threads() / timing.fastest();
}

double fma_rate(DType dtype) { return dtype == DType::f64 ? rate_of<double>() : rate_of<float>(); }

}  // namespace bellows
