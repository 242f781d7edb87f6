// When a product runs on Tensor Cores, by type of its elements and by the libraries' versions. What
// NVIDIA says; `bench matmul --align` measures it.
// Source: NVIDIA, "Deep Learning Performance: Matrix Multiplication Background", requirements
// table.
#pragma once
#include <span>
#include <string>

namespace bellows {

struct Alignment {
  const char* type;
  int before;        // with cuBLAS < 11.0 or cuDNN < 7.6.3: only for multiples of this; 0: never
  int best;          // since then always, fastest with multiples of this,
  int best_on_a100;  // and on an A100 of this
};
std::span<const Alignment> alignments();
const Alignment& alignment_of(const std::string& type);  // refuses one that is not in the table

// The table's cells as text. cuBLAS counts 110000 for 11.0.
std::string alignment_rule(const Alignment& row, int cublas);

// Does a product whose K and N are multiples of `multiple` run on Tensor Cores?
bool on_tensor_cores(const Alignment& row, int cublas, int64_t multiple);

}  // namespace bellows
