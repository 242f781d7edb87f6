// NVTX ranges, and cudaProfilerStart and Stop for the profile window, for Nsight Systems.
#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>
#include "core/base/registry.h"
#include "core/base/trace.h"

namespace bellows {

static void push(const char* name, const std::string& path) {
  nvtxRangePushA(path.empty() ? name : (name + (" " + path)).c_str());
}
// Ignores errors: without a device or after a fault, there is nothing to profile.
static void profile(bool on) {
  if ((on ? cudaProfilerStart() : cudaProfilerStop()) != cudaSuccess) cudaGetLastError();
}

static const Provide gpu(trace::marker, {push, [] { nvtxRangePop(); }, profile});

}  // namespace bellows
