#include "trainer/log/nvml.h"
#include <fmt/format.h>
#include <chrono>
#include "core/base/library.h"
#include "core/device/device_info.h"

namespace bellows {

// Declarations from nvml.h, which our toolkits lack. All functions return 0 on success.
struct Nvml::Api : Library {
  using Device = struct OpaqueDevice*;
  struct Utilization {
    unsigned gpu, memory;  // percent
  };
  struct Memory {
    unsigned long long total, free, used;
  };
  enum Clock : int { graphics, sm };

  using Library::Library;
  ~Api() {
    if (running) call("nvmlShutdown");
  }

  Device device = nullptr;
  bool running = false;
};

Nvml::Nvml(const std::string& pci, const char* library) : api_(std::make_unique<Api>(library)) {
  Api& nvml = *api_;
  nvml.running = nvml.call("nvmlInit_v2") == 0;
  if (!nvml.running) return;
  if (nvml.call("nvmlDeviceGetHandleByPciBusId_v2", pci.c_str(), &nvml.device) != 0)
    nvml.device = nullptr;
}
Nvml::~Nvml() = default;
Nvml::Nvml(Nvml&&) noexcept = default;

std::string text_of(const std::optional<GpuLoad>& load) {
  if (!load) return "NVML does not answer";
  return fmt::format("SM {} MHz, {} W, {} degrees C, throttle reasons {:#x}", load->sm_clock_mhz,
                     load->power_w, load->temperature_c, load->throttle);
}

std::optional<GpuLoad> Nvml::read() const {
  const Api& nvml = *api_;
  const auto device = nvml.device;
  if (!device) return {};
  Api::Utilization use{};
  Api::Memory memory{};
  unsigned milliwatts = 0, celsius = 0, sm = 0, processes = 0;
  unsigned long long reasons = 0;
  nvml.call("nvmlDeviceGetUtilizationRates", device, &use);
  nvml.call("nvmlDeviceGetMemoryInfo", device, &memory);
  nvml.call("nvmlDeviceGetPowerUsage", device, &milliwatts);
  nvml.call("nvmlDeviceGetTemperature", device, 0, &celsius);
  nvml.call("nvmlDeviceGetClockInfo", device, Api::sm, &sm);
  nvml.call("nvmlDeviceGetCurrentClocksEventReasons", device, &reasons);
  // Returns only the number of processes, because no room is given for a list of them.
  nvml.call("nvmlDeviceGetComputeRunningProcesses_v3", device, &processes,
            static_cast<void*>(nullptr));
  return GpuLoad{.utilization = use.gpu / 100.0,
                 .memory_bytes = double(memory.used),
                 .power_w = milliwatts / 1000.0,
                 .temperature_c = double(celsius),
                 .sm_clock_mhz = double(sm),
                 .throttle = reasons,
                 .processes = processes};
}

std::optional<double> Nvml::energy_j() const {
  unsigned long long millijoules = 0;
  if (!api_->device ||
      api_->call("nvmlDeviceGetTotalEnergyConsumption", api_->device, &millijoules) != 0)
    return {};
  return 1e-3 * double(millijoules);
}

std::optional<Nvml> open_nvml(Device device) {
  if (device != Device::cuda) return {};
  const CudaReport report = cuda_report();
  return report.gpus.empty() ? std::nullopt : std::optional<Nvml>(report.gpu().pci);
}

GpuMonitor::GpuMonitor(Nvml nvml)
    : nvml_(std::move(nvml)), thread_([this](const std::stop_token& end) { watch(end); }) {}

void GpuMonitor::watch(const std::stop_token& end) {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, end, std::chrono::milliseconds(100),
                          [&] { return end.stop_requested(); })) {
    lock.unlock();
    const std::optional<GpuLoad> load = nvml_.read();
    lock.lock();
    latest_ = load;
  }
}

std::optional<GpuLoad> GpuMonitor::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

}  // namespace bellows
