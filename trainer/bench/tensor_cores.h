// When a matrix product runs on Tensor Cores, by element type and library version, and the seed's
// measurements of it. `bench matmul --align` and `--seed-table` measure both.
// Source: NVIDIA, "Deep Learning Performance: Matrix Multiplication Background", requirements
// table.
#pragma once
#include <array>
#include "core/base/check.h"

namespace bellows {

struct Alignment {
  const char* type;
  int before;        // cuBLAS < 11.0 or cuDNN < 7.6.3: required multiple, in elements; 0: never
  int best;          // newer versions: always on Tensor Cores, fastest with this multiple
  int best_on_a100;  // the same on an A100
};
inline constexpr std::array kAlignments = {Alignment{"INT8", 16, 16, 128},
                                           Alignment{"FP16", 8, 8, 64}, Alignment{"TF32", 0, 4, 32},
                                           Alignment{"FP64", 0, 2, 16}};

// One cell of the table as text. `cublas` is the library's version number: 110000 for 11.0.
inline std::string alignment_rule(const Alignment& row, int cublas) {
  constexpr int kAnyAlignment = 110000;  // cuBLAS 11.0, the first without a requirement
  if (cublas < kAnyAlignment)
    return row.before ? cat("multiples of ", row.before) : std::string("not available");
  return cat("always; best with multiples of ", row.best, ", on A100 of ", row.best_on_a100);
}

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
