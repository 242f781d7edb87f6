// Ranges as NVTX, and the profile window as cudaProfilerStart and Stop: what Nsight Systems shows.
#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>
#include "core/base/trace.h"

namespace bellows {

static void push(const char* name, const std::string& path) {
  nvtxRangePushA(path.empty() ? name : (name + (" " + path)).c_str());
}
// A hint: without a device, and after a fault, nobody listens.
static void profile(bool on) {
  if ((on ? cudaProfilerStart() : cudaProfilerStop()) != cudaSuccess) cudaGetLastError();
}

static const bool gpu = trace::add_marker({push, [] { nvtxRangePop(); }, profile});

}  // namespace bellows
