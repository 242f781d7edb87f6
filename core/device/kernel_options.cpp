#include "core/device/kernel_options.h"
#include "core/config/visitor.h"

namespace bellows {

void visit(Visitor& v, KernelOptions& o) {
  v("vendor", o.vendor, "kernels of oneDNN, cuDNN and cuBLAS instead of the plain ones");
  v("tf32", o.tf32, "f32 matmul and conv with a 10-bit mantissa, where the device can");
  v("pad_channels", o.pad_channels,
    "channels and features of products in 16 bits or TF32 are padded to multiples of 8");
  v("autotune", o.autotune, {"heuristic", "benchmark", "found"},
    "how an algorithm is chosen: by rule, the fastest by trying, or what that found earlier");
  v("search_seconds", o.search_seconds,
    "time that one search for the fastest algorithm may take, its runs and builds included",
    {.min = 0});
  v("workspace_mb", o.workspace_mb, "MiB of scratch memory that one vendor's kernel may take",
    {.min = 0, .max = 1 << 24});
}

static KernelOptions& in_force() {
  static thread_local KernelOptions options;
  return options;
}

const KernelOptions& kernel_options() { return in_force(); }

Kernels::Kernels(const KernelOptions& options) : Scoped(in_force(), options) {}

}  // namespace bellows
