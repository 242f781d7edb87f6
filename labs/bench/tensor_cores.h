// When a matrix product runs on Tensor Cores, by element type and library version, and the
// measurements of S1:62. `bench matmul --align` and `--source-table` measure both.
// Source: NVIDIA, "Deep Learning Performance: Matrix Multiplication Background", requirements
// table.
#pragma once
#include <array>

namespace bellows {

struct Alignment {
  const char* type;
  const char* before;  // cuBLAS < 11.0 or cuDNN < 7.6.3, which require a multiple, in elements
  const char* since;
};
inline constexpr Alignment kAlignments[] = {
    {"INT8", "multiples of 16", "always; best with multiples of 16, on A100 of 128"},
    {"FP16", "multiples of 8", "always; best with multiples of 8, on A100 of 64"},
    {"TF32", "not available", "always; best with multiples of 4, on A100 of 32"},
    {"FP64", "not available", "always; best with multiples of 2, on A100 of 16"}};

// Measurements of statement S1:62 of docs/seeds.md: [16, M, K] x [K, N] on a V100, with CUDA 10.1
// and cuDNN 7.6.5.
struct SeedRow {
  int64_t m, k, n;
  double fp32_ms, fp16_ms;
  const char* remark;
  constexpr double speed_up() const { return fp32_ms / fp16_ms; }
};

inline constexpr std::array kSeedTable = {
    SeedRow{36, 1504, 10000, 1.340, 0.267, "M, K, N multiples of 8"},
    SeedRow{35, 1504, 10000, 1.330, 0.264, "M is not a multiple of 8"},
    SeedRow{36, 1500, 10000, 1.433, 1.367, "K is not a multiple of 8"},
    SeedRow{36, 1504, 9999, 1.406, 1.388, "N is not a multiple of 8"}};

}  // namespace bellows
