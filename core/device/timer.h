// How long a device takes, by its own clock. Apart from Event, which orders and is cheaper.
#pragma once
#include "core/device/device.h"

namespace bellows {

// The moment at which a stream gets here, after all work that it was given before. The CPU's is the
// moment of the call.
class Moment {
 public:
  explicit Moment(Stream stream);
  ~Moment();
  Moment(Moment&&) = delete;
  // Of one device; both have passed (synchronize() first).
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
