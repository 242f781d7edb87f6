// Device time, by the device's own clock. An Event is cheaper, but only orders work.
#pragma once
#include "core/device/device.h"

namespace bellows {

// Time at which a stream has done all work queued before this. On the CPU, the time of the call.
class Moment {
 public:
  explicit Moment(Stream stream);
  ~Moment();
  Moment(Moment&&) = delete;
  // Milliseconds since `begin`, of the same device. Both must have passed: synchronize() first.
  double ms_since(const Moment& begin) const;

 private:
  Device device_;
  void* native_;
};

struct ClockApi {
  void* (*mark)(Stream stream) = nullptr;
  void (*forget)(void* moment) = nullptr;
  double (*ms)(void* begin, void* end) = nullptr;
};
inline constinit ClockApi clock_apis[kDevices] = {};
struct AddClock {
  AddClock(Device device, const ClockApi& api, const char* file = __builtin_FILE()) {
    registered_files().insert(file);
    clock_apis[static_cast<int>(device)] = api;
  }
};

}  // namespace bellows
