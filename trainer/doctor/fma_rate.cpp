// Measures the peak rate of a CPU: independent multiply-adds that stay in registers.
#include <immintrin.h>
#include <omp.h>
#include "core/device/timer.h"
#include "ops/base/lanes.h"
#include "trainer/doctor/stress.h"

namespace bellows {

namespace {
// Twelve chains cover the latency of two FMA units and leave four of AVX2's 16 registers free.
constexpr int kChains = 12, kTurns = 4096;

template <class T> struct Chains {
  T& sum;        // depends on all results, so the work is not optimized away
  double& flop;  // per call

  // Computes in vectors of L floats, or L / 2 doubles.
  template <int L> [[gnu::always_inline]] void operator()() const {
    constexpr int kLanes = L * sizeof(float) / sizeof(T);
    Lanes<T, kLanes> chains[kChains] = {}, factor = {}, term = {};
    factor += T(0.5);
    term += sum;
    for (int i = 0; i < kChains; ++i) chains[i] += T(i);  // equal chains would be computed once
    for (int turn = 0; turn < kTurns; ++turn)
#pragma GCC unroll 12
      for (auto& chain : chains) chain = chain * factor + term;
    for (const auto& chain : chains) sum += chain[0] * T(1e-6);
    flop = 2.0 * kTurns * kChains * kLanes;
  }
};

// Multiply-adds of bf16 pairs with f32 accumulators: 32 products per instruction.
[[gnu::target("avx512f,avx512bf16")]] void pairs(float& sum, double& flop) {
  __m512 chains[kChains];
  for (int i = 0; i < kChains; ++i) chains[i] = _mm512_set1_ps(float(i));
  const __m512bh factor = _mm512_cvtne2ps_pbh(_mm512_set1_ps(sum), _mm512_set1_ps(0.5F));
  for (int turn = 0; turn < kTurns; ++turn)
#pragma GCC unroll 12
    for (__m512& chain : chains) chain = _mm512_dpbf16_ps(chain, factor, factor);
  for (const __m512& chain : chains) sum += chain[0] * 1e-9F;
  flop = 2.0 * kTurns * kChains * 32;
}
}  // namespace

// run(sum, flop) computes for a while, adds to `sum` and sets `flop` to the operations of one call.
template <class T> static double rate_of(const auto& run) {
  constexpr int kCalls = 64;
  double flop = 0;
  static volatile double kept = 0;
  const std::function<void()> all_threads = [&] {
#pragma omp parallel
    {
      T sum = 1;
      double mine = 0;
      for (int i = 0; i < kCalls; ++i) run(sum, mine);
#pragma omp critical
      {
        kept = kept + double(sum);
        flop = kCalls * mine;
      }
    }
  };
  const Timing timing = time_interleaved({all_threads}, Device::cpu)[0];
  return flop * omp_get_max_threads() / timing.fastest();
}

template <class T> static double rate_in_lanes() {
  return rate_of<T>([](T& sum, double& flop) { in_lanes<float>(Chains<T>{sum, flop}); });
}

double fma_rate(DType dtype) {
  if (dtype == DType::f64) return rate_in_lanes<double>();
  if (dtype == DType::f32) return rate_in_lanes<float>();
  return dtype == DType::bf16 && __builtin_cpu_supports("avx512bf16") ? rate_of<float>(pairs) : 0;
}

}  // namespace bellows
