// When a matrix product runs on Tensor Cores, by element type and library version. These are
// NVIDIA's statements; `bench matmul --align` measures them.
// Source: NVIDIA, "Deep Learning Performance: Matrix Multiplication Background", requirements
// table.
#pragma once
#include <span>
#include <string>

namespace bellows {

struct Alignment {
  const char* type;
  int before;        // cuBLAS < 11.0 or cuDNN < 7.6.3: required multiple, in elements; 0: never
  int best;          // newer versions: always on Tensor Cores, fastest with this multiple
  int best_on_a100;  // the same on an A100
};
std::span<const Alignment> alignments();
const Alignment& alignment_of(const std::string& type);  // throws Error (exit 2) if unknown

// One cell of the table as text. `cublas` is the library's version number: 110000 for 11.0.
std::string alignment_rule(const Alignment& row, int cublas);

// Returns true if a product whose K and N are multiples of `multiple` runs on Tensor Cores.
bool on_tensor_cores(const Alignment& row, int cublas, int64_t multiple);

}  // namespace bellows
