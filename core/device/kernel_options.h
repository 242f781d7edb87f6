// Options that apply to all kernels, in force on this thread while a Kernels object lives:
//   const Kernels use(plan.kernels);
// record() captures them, so backward and recompute run under the options of their forward.
#pragma once
#include <cstdint>
#include "core/base/scoped.h"

namespace bellows {

class Visitor;

// Choice among the algorithms of a kernel: by a heuristic, the fastest in a benchmark, or the
// result of an earlier benchmark without running a new one.
enum class Autotune { heuristic, benchmark, found };

// Library of the f32 products of matrices on the CPU. onednn: Eigen where `vendor` is off.
enum class Blas { onednn, openblas, eigen };

struct KernelOptions {
  bool vendor = false;  // use oneDNN, cuDNN, cuBLAS where they have the kernel
  bool tf32 = false;    // f32 matmul and conv with a 10-bit mantissa, if the device can
  // Pads channels to multiples of 8 in 16-bit or TF32 products: ops/matmul/padded.h.
  bool pad_channels = false;
  Blas blas = Blas::onednn;
  Autotune autotune = Autotune::heuristic;
  double search_seconds = 10;       // limit of one benchmark among algorithms or plans
  int64_t workspace_mb = 1024;      // limit of scratch memory per call of a vendor kernel
  bool deterministic = false;       // only kernels with equal bits for any number of threads
  const char* algorithm = nullptr;  // for tests: forces this algorithm in every kernel that has it
  bool operator==(const KernelOptions&) const = default;
};
void visit(Visitor& v, KernelOptions& o);

const KernelOptions& kernel_options();

struct Kernels : Scoped<KernelOptions> {
  explicit Kernels(const KernelOptions& options);
};

}  // namespace bellows
