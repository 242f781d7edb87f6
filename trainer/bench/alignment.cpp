#include "trainer/bench/alignment.h"
#include "core/base/check.h"

namespace bellows {

static constexpr int kSinceAlways = 110000;  // cuBLAS 11.0

static constexpr Alignment kRows[] = {
    {"INT8", 16, 16, 128}, {"FP16", 8, 8, 64}, {"TF32", 0, 4, 32}, {"FP64", 0, 2, 16}};

std::span<const Alignment> alignments() { return kRows; }

const Alignment& alignment_of(const std::string& type) {
  for (const Alignment& row : kRows)
    if (type == row.type) return row;
  fail(Exit::usage, "no alignment is known of ", type, "; INT8, FP16, TF32 and FP64 are");
}

std::string alignment_rule(const Alignment& row, int cublas) {
  if (cublas < kSinceAlways)
    return row.before ? cat("multiples of ", row.before) : std::string("not available");
  return cat("always; best with multiples of ", row.best, ", on A100 of ", row.best_on_a100);
}

bool on_tensor_cores(const Alignment& row, int cublas, int64_t multiple) {
  return cublas >= kSinceAlways || (row.before && multiple % row.before == 0);
}

}  // namespace bellows
