// For tests of kernels on a device: finds kernels that were not run on the CPU as well.
#pragma once
#include <map>
#include <string>
#include "core/tensor/kernel.h"

namespace bellows {

inline constexpr int kCpu = int(Device::cpu), kCuda = int(Device::cuda);

// Number of runs of each kernel since construction.
class RunCount {
 public:
  RunCount() {
    for (const KernelRecord* kernel : kernel_records()) {
      before_[0][kernel] = kernel->runs[0];
      before_[1][kernel] = kernel->runs[1];
    }
  }
  int64_t on(int device, const KernelRecord* kernel) const {
    return kernel->runs[device] - before_[device].at(kernel);
  }

 private:
  std::map<const KernelRecord*, int64_t> before_[kDevices];
};

// Returns the CUDA kernels of a folder that have not run on both devices since then, one per line.
// The twin of a kernel without CPU implementation is the composition that its op runs there.
inline std::string without_twin(const RunCount& runs, const std::string& folder) {
  std::map<std::string, int> missing;
  for (const KernelRecord* kernel : kernel_records()) {
    const char* const file = kernel->file[kCuda];
    if (!file || std::string(file).find("/" + folder + "/") == std::string::npos) continue;
    for (const int device : {kCpu, kCuda})
      if (kernel->file[device] && runs.on(device, kernel) == 0)
        missing[cat(kernel->name, " of ", file, " did not run on ", Device(device), "\n")] = 1;
  }
  std::string text;
  for (const auto& [line, once] : missing) text += line;
  return text;
}

}  // namespace bellows
