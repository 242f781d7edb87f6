#include "trainer/nvml.h"
#include <dlfcn.h>

namespace bellows {

// The prototypes of nvml.h, which no toolkit of ours has: a return of 0 is success.
struct Nvml::Library {
  using Device = struct OpaqueDevice*;
  struct Utilization {
    unsigned gpu, memory;  // percent
  };
  struct Memory {
    unsigned long long total, free, used;
  };
  enum Clock : int { graphics, sm, memory };

  explicit Library(const char* name) : handle(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}
  ~Library() {
    if (running) call<int()>("nvmlShutdown");
    if (handle) dlclose(handle);
  }
  // The function's answer, or failure where the library lacks it.
  template <class Signature, class... Args> int call(const char* name, Args... args) const {
    auto* const function = handle ? reinterpret_cast<Signature*>(dlsym(handle, name)) : nullptr;
    return function ? function(args...) : -1;
  }

  void* handle;
  Device device = nullptr;
  bool running = false;
};

Nvml::Nvml(const std::string& pci, const char* library)
    : library_(std::make_unique<Library>(library)) {
  Library& nvml = *library_;
  nvml.running = nvml.call<int()>("nvmlInit_v2") == 0;
  if (!nvml.running) return;
  if (nvml.call<int(const char*, Library::Device*)>("nvmlDeviceGetHandleByPciBusId_v2", pci.c_str(),
                                                    &nvml.device) != 0)
    nvml.device = nullptr;
}
Nvml::~Nvml() = default;

std::optional<GpuLoad> Nvml::read() const {
  const Library& nvml = *library_;
  const auto device = nvml.device;
  if (!device) return {};
  using Device = Library::Device;
  Library::Utilization use{};
  Library::Memory memory{};
  unsigned milliwatts = 0, celsius = 0, sm = 0, clock = 0;
  unsigned long long reasons = 0;
  nvml.call<int(Device, Library::Utilization*)>("nvmlDeviceGetUtilizationRates", device, &use);
  nvml.call<int(Device, Library::Memory*)>("nvmlDeviceGetMemoryInfo", device, &memory);
  nvml.call<int(Device, unsigned*)>("nvmlDeviceGetPowerUsage", device, &milliwatts);
  nvml.call<int(Device, int, unsigned*)>("nvmlDeviceGetTemperature", device, 0, &celsius);
  nvml.call<int(Device, int, unsigned*)>("nvmlDeviceGetClockInfo", device, Library::sm, &sm);
  nvml.call<int(Device, int, unsigned*)>("nvmlDeviceGetClockInfo", device, Library::memory, &clock);
  nvml.call<int(Device, unsigned long long*)>("nvmlDeviceGetCurrentClocksEventReasons", device,
                                              &reasons);
  return GpuLoad{use.gpu / 100.0, double(memory.used), milliwatts / 1000.0,
                 double(celsius), double(sm),          double(clock),
                 reasons};
}

}  // namespace bellows
