// Measurements of statement S1:62 of docs/seeds.md: [16, M, K] x [K, N] on a V100, with CUDA 10.1
// and cuDNN 7.6.5.
#pragma once
#include <array>
#include <cstdint>

namespace bellows {

struct SeedRow {
  int64_t m, k, n;
  double fp32_ms, fp16_ms;
  bool tensor_cores;
  const char* remark;
  constexpr double speed_up() const { return fp32_ms / fp16_ms; }
};

inline constexpr std::array kSeedTable = {
    SeedRow{36, 1504, 10000, 1.340, 0.267, true, "M, K, N multiples of 8"},
    SeedRow{35, 1504, 10000, 1.330, 0.264, true, "M is no multiple of 8"},
    SeedRow{36, 1500, 10000, 1.433, 1.367, false, "K is no multiple of 8"},
    SeedRow{36, 1504, 9999, 1.406, 1.388, false, "N is no multiple of 8"}};

}  // namespace bellows
