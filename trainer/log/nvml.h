// Load of a GPU as NVML reports it. The library is loaded at run time if it is installed.
#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include "core/device/device.h"

namespace bellows {

struct GpuLoad {
  double utilization = 0;   // share of the last sample period in which a kernel ran
  double memory_bytes = 0;  // memory in use by all processes
  double power_w = 0, temperature_c = 0, sm_clock_mhz = 0;
  uint64_t throttle = 0;   // nvmlClocksEventReason bits; 0: clocks are not limited
  unsigned processes = 0;  // processes that compute on the GPU, this one included
};

// "SM 1980 MHz, 612.5 W, 54 degrees C, throttle reasons 0x0"
std::string text_of(const std::optional<GpuLoad>& load);

class Nvml {
 public:
  // `pci`: bus id of the GPU, "0000:3b:00.0". NVML numbers GPUs differently from CUDA.
  explicit Nvml(const std::string& pci, const char* library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(Nvml&&) noexcept;
  std::optional<GpuLoad> read() const;  // empty without NVML or this GPU
  // Energy that the GPU has used since its driver was loaded, in joules. Empty where it has no
  // meter.
  std::optional<double> energy_j() const;

 private:
  struct Api;
  std::unique_ptr<Api> api_;
};

// Returns NVML for the GPU that this process trains on, or nothing on the CPU.
std::optional<Nvml> open_nvml(Device device);

// Reads the load ten times a second on a thread of its own. A read takes milliseconds, in which the
// training thread would queue no kernels.
class GpuMonitor {
 public:
  explicit GpuMonitor(Nvml nvml);
  std::optional<GpuLoad> latest() const;  // empty without NVML or this GPU

 private:
  void watch(const std::stop_token& end);

  const Nvml nvml_;
  mutable std::mutex mutex_;
  std::condition_variable_any ended_;
  std::optional<GpuLoad> latest_ = nvml_.read();
  std::jthread thread_;  // the last member: its destructor ends the thread before the others go
};

}  // namespace bellows
