// CUDA support of this machine (driver, GPUs, libraries) and of this binary (runtime,
// architectures). The machine is queried through dlopen. A program thus starts without a driver,
// and can report that the driver is too old for its runtime.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bellows {

struct Gpu {
  std::string name;  // "NVIDIA H200"
  int arch = 0;      // 90: sm_90
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
  std::string pci;  // "0000:3b:00.0"
};

// Filled by core/device/device_info.cu; stays as it is in a build without CUDA.
struct CudaCode {
  int runtime = 0;                 // 13000: CUDA 13.0; 0: this binary has no CUDA code
  const char* architectures = "";  // as in CMake: "80-real 90-virtual", "90" for both
};
inline constinit CudaCode cuda_code = {};

struct CudaReport {
  CudaCode code;
  int driver = 0;              // newest CUDA version that the driver supports; 0: no driver
  std::string driver_release;  // "580.82.07"; "" if unknown
  std::string refusal;         // why the driver offers no GPU
  std::vector<Gpu> gpus;
  int chosen = 0;  // number of the GPU that this process uses: chosen_gpu()
  const Gpu& gpu() const { return gpus.at(chosen); }  // the chosen one; `gpus` must not be empty
};
CudaReport cuda_report();

// Loads the installed libraries of NVIDIA. Returns their names and versions: {"cuDNN", "9.19.0"}.
using Versions = std::vector<std::pair<std::string, std::string>>;
Versions cuda_libraries();

// Returns one line: why this binary cannot use a GPU here, and what to do; "" if it can.
std::string cuda_trouble(const CudaReport& report);

// Formats 13000 as "13.0".
std::string cuda_version(int version);

// Formats a list of architectures for users: "sm_80, sm_90, PTX 90".
std::string architectures_text(const std::string& list);

// Returns true if machine code or PTX of that list runs on architecture `arch` (90: sm_90).
bool runs_on(const std::string& list, int arch);

}  // namespace bellows
