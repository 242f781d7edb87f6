// What concerns all kernels alike, in force on this thread through a visible
//   const Kernels use(plan.kernels);
// record() captures it, so backward and recompute run under the options of their forward.
#pragma once
#include "core/config/visitor.h"

namespace bellows {

// Among several algorithms for the same: what a heuristic takes; the fastest, found by trying; or
// what was found so, with no more trying.
enum class Autotune { heuristic, benchmark, found };

struct KernelOptions {
  bool vendor = false;  // oneDNN, cuDNN, cuBLAS where there is such a kernel; else the plain one
  bool tf32 = false;    // f32 matmul and conv with a 10-bit mantissa, on devices that have it
  // Pad channels to multiples of 8 in products in 16 bits or TF32: ops/matmul/padded.h.
  bool pad_channels = false;
  Autotune autotune = Autotune::heuristic;
  int64_t workspace_mb = 1024;      // most scratch memory of one call of a vendor's kernel
  bool deterministic = false;       // only kernels with the same bits for any number of threads
  const char* algorithm = nullptr;  // for tests: the one of that name, in every kernel that has it
  bool operator==(const KernelOptions&) const = default;
};
void visit(Visitor& v, KernelOptions& o);

const KernelOptions& kernel_options();

class Kernels {
 public:
  explicit Kernels(const KernelOptions& options);
  ~Kernels();
  Kernels(Kernels&&) = delete;

 private:
  KernelOptions previous_;
};

}  // namespace bellows
