#include <cpuid.h>
#include <fmt/format.h>
#include <immintrin.h>
#include <omp.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <deque>
#include "core/base/output.h"
#include "core/base/philox.h"
#include "core/base/words.h"
#include "core/device/timer.h"
#include "labs/bench/bench.h"
#include "labs/doctor/doctor.h"
#include "ops/base/lanes.h"
#include "ops/matmul/matmul.h"
#include "trainer/log/nvml.h"
#include "trainer/verbs/tables.h"

namespace bellows {

static std::vector<int64_t> sampled_rows(int64_t n) {
  const Philox rng({.seed = 7});
  std::vector<int64_t> rows = {0, n - 1};
  for (int i = 0; i < 6; ++i) rows.push_back(int64_t(rng.below(uint64_t(n), uint64_t(i))));
  return rows;
}

// Runs 100 products of n x n x n one after the other. Returns the row of a precision; `wrong` is
// set if a result exceeds its rounding bound.
static TableRow stress_one(const Precision& precision, Device device, int64_t n, bool& wrong) {
  const Product product(precision, {n, n}, {n, n}, device);
  product.run();  // the library chooses its algorithm
  synchronize(current_stream(device));
  constexpr int kParts = 10, kProducts = 10;  // products of a part
  const Stream stream = current_stream(device);
  std::deque<Moment> passed;  // deque: a Moment cannot be moved
  passed.emplace_back(stream);
  for (int part = 0; part < kParts; ++part) {
    for (int i = 0; i < kProducts; ++i) product.run();
    passed.emplace_back(stream);
  }
  synchronize(stream);
  std::vector<double> ms;
  for (int part = 0; part < kParts; ++part) ms.push_back(passed[part + 1].ms_since(passed[part]));
  const double flop = product.flop() * kProducts;
  const double rate = flop * kParts / (1e-3 * passed.back().ms_since(passed.front()));
  const auto part_rate = [&](double part_ms) {
    return rate_text(flop / (1e-3 * part_ms), "FLOP/s");
  };
  const double peak = device == Device::cpu ? fma_rate(precision.dtype) : 0;
  const double error = worst_error(product, sampled_rows(n));
  wrong = !(error <= 1);
  return {precision.name,
          rate_text(rate, "FLOP/s"),
          cat(part_rate(std::ranges::max(ms)), " to ", part_rate(std::ranges::min(ms))),
          peak > 0 ? fmt::format("{:.0f} %", 100 * rate / peak) : "-",
          fmt::format("{:.3f}", error),
          wrong ? "WRONG" : "verified"};
}

// Returns 8192 for a GPU. For a CPU: the n, from 256 to 8192, at which 100 FP32 products take at
// most about two seconds.
static int64_t stress_size(Device device) {
  if (device != Device::cpu) return 8192;
  const Product probe(precisions(device)[0], {384, 384}, {384, 384}, device);
  const Timing timing = time_interleaved({[&] { probe.run(); }}, device, {.rounds = 3})[0];
  const double affordable = 2.0 / 100 * probe.flop() / timing.fastest();  // flop of one product
  int64_t n = 256;
  for (const int64_t larger : {512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192})
    if (2.0 * double(larger * larger) * double(larger) <= affordable) n = larger;
  return n;
}

// A GPU that is hot, power-capped or shared explains a rate that the kernels cannot.
static void say_state(Device device, const char* when) {
  if (const auto nvml = open_nvml(device)) say(cat(when, ": ", text_of(nvml->read())));
}

void stress(Device device, int64_t n) {
  if (n == 0) n = stress_size(device);
  say("");
  say(fmt::format("stress: 100 products {} x {} x {} on {}, random data, then one synchronization",
                  n, n, n, cat(device)));
  std::vector<TableRow> rows = {
      {"", "rate", "slowest to fastest tenth", "of FMA peak", "error / bound", "8 rows"}};
  Names wrong;
  say_state(device, "before");
  for (const Precision& precision : precisions(device)) {
    bool is_wrong = false;
    rows.push_back(stress_one(precision, device, n, is_wrong));
    if (is_wrong) wrong.emplace_back(precision.name);
  }
  say_state(device, "after");
  say_part(aligned(rows, "lrrrrl"));
  if (device == Device::cpu) say_part("\n" + blas_rates());
  if (!wrong.empty())
    fail(Exit::numeric, "doctor: products in ", joined(wrong), " are wrong on ", device,
         ": memory, an overclocked chip or a library is broken");
}

// ---- libraries of f32 products

std::string blas_rates() {
  // M, K and N of LeNet's first linear layer, and of two convolutions of ResNet-18 on one image.
  constexpr std::array<int64_t, 3> kShapes[] = {{64, 400, 120}, {3136, 576, 64}, {49, 4608, 512}};
  const std::string core = openblas::core();
  std::vector<std::pair<const char*, Blas>> libraries = {{"eigen", Blas::eigen}};
  if (kernels::matmul.has_vendor(Device::cpu)) libraries.emplace_back("onednn", Blas::onednn);
  if (!core.empty()) libraries.emplace_back("openblas", Blas::openblas);
  const double peak = fma_rate(DType::f32);
  std::vector<TableRow> rows = {{"cpu.blas"}};
  for (const auto& [name, blas] : libraries) rows.push_back({name});
  for (const auto& [M, K, N] : kShapes) {
    rows[0].push_back(cat(M, "x", K, "x", N));
    const Product product(precisions(Device::cpu)[0], {M, K}, {K, N}, Device::cpu);
    std::vector<std::function<void()>> calls;
    for (const auto& [name, blas] : libraries)
      calls.emplace_back([&product, library = blas] { product.run(library); });
    const std::vector<Timing> times = time_interleaved(calls, Device::cpu);
    for (size_t i = 0; i < times.size(); ++i) {
      const double rate = product.flop() / times[i].fastest();
      rows[i + 1].push_back(
          cat(rate_text(rate, "FLOP/s"), ", ", std::lround(100 * rate / peak), " %"));
    }
  }
  return cat("f32 products M x K x N of LeNet and ResNet-18, and the share of the FMA peak of ",
             rate_text(peak, "FLOP/s"), "\n", aligned(rows, "lrrr"), "openblas: ",
             core.empty() ? "apt-get install libopenblas0-pthread\n"
                          : cat("its kernels for ", core, "; OPENBLAS_CORETYPE chooses others\n"));
}

// ---- peak rate of a CPU: independent multiply-adds that stay in registers

namespace {
// Twelve chains cover the latency of two FMA units and leave four of AVX2's 16 registers free.
constexpr int kChains = 12, kTurns = 4096;

// Multiply-adds of bf16 pairs with f32 accumulators: 32 products per instruction.
[[gnu::target("avx512f,avx512bf16")]] double pairs(float& sum) {
  __m512 chains[kChains];
  for (int i = 0; i < kChains; ++i) chains[i] = _mm512_set1_ps(float(i));
  const __m512bh factor = _mm512_cvtne2ps_pbh(_mm512_set1_ps(sum), _mm512_set1_ps(0.5F));
  for (int turn = 0; turn < kTurns; ++turn)
#pragma GCC unroll 12
    for (__m512& chain : chains) chain = _mm512_dpbf16_ps(chain, factor, factor);
  for (const __m512& chain : chains) sum += chain[0] * 1e-9F;
  return 2.0 * kTurns * kChains * 32;
}

// AMX: products of 16 x 32 with 32 x 16 bf16 values, one per instruction. Four cover its latency.
[[gnu::target("amx-tile,amx-bf16")]] double tiles(float& sum) {
  struct alignas(64) Config {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16};
  };
  const Config config;
  alignas(64) uint16_t halves[16 * 32];
  alignas(64) float out[16 * 16];
  std::ranges::fill(halves, uint16_t(0x3f00));  // 0.5
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, halves, 64);
  _tile_loadd(5, halves, 64);
  for (int turn = 0; turn < kTurns; ++turn) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_stored(0, out, 64);
  _tile_release();
  sum += out[0] * 1e-9F;
  return 2.0 * kTurns * 4 * (16 * 16 * 32);
}

// Linux gives the tiles only to processes that request them.
bool has_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kBf16 = 1U << 22, kTile = 1U << 24;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & kBf16) == 0 || (d & kTile) == 0)
    return false;
  constexpr long kRequestState = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XTILEDATA
  return syscall(SYS_arch_prctl, kRequestState, kTileData) == 0;
}
}  // namespace

// run(sum) computes for a while, adds something of each result to `sum`, so that nothing is
// optimized away, and returns its number of operations.
template <class T> static double rate_of(const auto& run) {
  static volatile double kept = 0;
  double flop = 0;
  const std::function<void()> all_threads = [&] {
    double work = 0, sums = 0;
#pragma omp parallel reduction(+ : work, sums)
    {
      constexpr int kCalls = 64;
      T sum = 1;
      for (int i = 0; i < kCalls; ++i) work += run(sum);
      sums += double(sum);
    }
    kept = kept + sums;
    flop = work;
  };
  const Timing timing = time_interleaved({all_threads}, Device::cpu)[0];
  return flop / timing.fastest();
}

// Computes in vectors of L floats, or L / 2 doubles.
template <class T> static double rate_in_lanes() {
  return rate_of<T>([](T& sum) {
    double flop = 0;
    in_lanes<float>([&]<int L>() __attribute__((always_inline)) {
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
    });
    return flop;
  });
}

double fma_rate(DType dtype) {
  if (dtype == DType::f64) return rate_in_lanes<double>();
  if (dtype == DType::f32) return rate_in_lanes<float>();
  if (dtype != DType::bf16) return 0;
  if (has_tiles()) return rate_of<float>(tiles);
  return __builtin_cpu_supports("avx512bf16") ? rate_of<float>(pairs) : 0;
}

}  // namespace bellows
