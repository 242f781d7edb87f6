// What there is of CUDA: in this machine (driver, GPUs, libraries) and in this binary (runtime,
// architectures). Everything in the machine is asked through dlopen, so that a program without a
// driver starts, and one whose driver is too old for its runtime can still say so.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>
#include "core/base/registry.h"

namespace bellows {

struct Gpu {
  std::string name;  // "NVIDIA H200"
  int arch = 0;      // 90: sm_90
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
  std::string pci;  // "0000:3b:00.0"
};

// core/device/device_info.cu fills it; a build without CUDA leaves it as it is.
struct CudaCode {
  int runtime = 0;                 // 13000: CUDA 13.0; 0: this binary has no CUDA code
  const char* architectures = "";  // in CMake's words: "80-real 90-virtual", "90" for both kinds
};
inline constinit CudaCode cuda_code = {};
struct AddCudaCode {
  explicit AddCudaCode(const CudaCode& code, const char* file = __builtin_FILE()) {
    registered_files().insert(file);
    cuda_code = code;
  }
};

struct CudaReport {
  CudaCode code;
  int driver = 0;              // the newest CUDA that the driver supports; 0: no driver
  std::string driver_release;  // "580.82.07"; "" if unknown
  std::string refusal;         // why the driver gives no GPU
  std::vector<Gpu> gpus;
};
CudaReport cuda_report();

// {"cuDNN", "9.19.0"}: those of NVIDIA's libraries that can be loaded. Loads them.
using Versions = std::vector<std::pair<std::string, std::string>>;
Versions cuda_libraries();

// One line: why this binary cannot use a GPU here, and what to do; "" if it can.
std::string cuda_trouble(const CudaReport& report);

// 13000: "13.0".
std::string cuda_version(int version);

// "sm_80, sm_90, PTX 90", for people.
std::string architectures_text(const std::string& list);

// Can machine code or PTX of that list run on a GPU of this architecture?
bool runs_on(const std::string& list, int arch);

}  // namespace bellows
