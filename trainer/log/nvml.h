// What the driver's monitor says about a GPU while it trains: NVML, loaded when it is there.
#pragma once
#include <memory>
#include <optional>
#include <string>

namespace bellows {

struct GpuLoad {
  double utilisation = 0;   // share of the last sample period in which some kernel ran
  double memory_bytes = 0;  // in use, of all processes
  double power_w = 0, temperature_c = 0, sm_clock_mhz = 0;
  uint64_t throttle = 0;  // nvmlClocksEventReason bits; 0: nothing holds the clocks back
};

// "SM 1980 MHz, 612.5 W, 54 degrees C, throttle reasons 0x0"
std::string text_of(const std::optional<GpuLoad>& load);

class Nvml {
 public:
  // pci: of the GPU, "0000:3b:00.0": NVML counts GPUs in another order than CUDA does.
  explicit Nvml(const std::string& pci, const char* library = "libnvidia-ml.so.1");
  ~Nvml();
  std::optional<GpuLoad> read() const;  // nothing where there is no NVML, or not that GPU

 private:
  struct Api;
  std::unique_ptr<Api> api_;
};

}  // namespace bellows
