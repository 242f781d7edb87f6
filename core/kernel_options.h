// What concerns all kernels alike, in force on this thread through a visible
//   const Kernels use(plan.kernels);
// record() captures it, so backward and recompute run under the options of their forward.
#pragma once
#include "core/visitor.h"

namespace bellows {

enum class Autotune { heuristic, benchmark };

struct KernelOptions {
  bool vendor = false;  // oneDNN, cuDNN, cuBLAS where there is such a kernel; else the plain one
  bool tf32 = false;    // f32 matmul and conv with a 10-bit mantissa, on devices that have it
  Autotune autotune = Autotune::heuristic;
  int64_t workspace_mb = 1024;  // most scratch memory of one call of a vendor's kernel
  bool deterministic = false;   // only kernels with the same bits for any number of threads
  bool operator==(const KernelOptions&) const = default;
};
void visit(Visitor& v, KernelOptions& o);

const KernelOptions& kernel_options();

class Kernels {
 public:
  explicit Kernels(const KernelOptions& options);
  ~Kernels();
  Kernels(const Kernels&) = delete;

 private:
  KernelOptions previous_;
};

}  // namespace bellows
