// Load of a GPU as NVML reports it. The library is loaded at run time if it is installed.
#pragma once
#include <memory>
#include <optional>
#include <string>

namespace bellows {

struct GpuLoad {
  double utilization = 0;   // share of the last sample period in which a kernel ran
  double memory_bytes = 0;  // in use by all processes
  double power_w = 0, temperature_c = 0, sm_clock_mhz = 0;
  uint64_t throttle = 0;  // nvmlClocksEventReason bits; 0: clocks are not limited
};

// "SM 1980 MHz, 612.5 W, 54 degrees C, throttle reasons 0x0"
std::string text_of(const std::optional<GpuLoad>& load);

class Nvml {
 public:
  // `pci`: bus id of the GPU, "0000:3b:00.0". NVML numbers GPUs differently from CUDA.
  explicit Nvml(const std::string& pci, const char* library = "libnvidia-ml.so.1");
  ~Nvml();
  std::optional<GpuLoad> read() const;  // empty without NVML or this GPU

 private:
  struct Api;
  std::unique_ptr<Api> api_;
};

}  // namespace bellows
