#include "core/device/timer.h"
#include "core/base/check.h"
#include "core/base/trace.h"

namespace bellows {

static const ClockApi& clock_of(Device device) {
  const ClockApi& api = clock_apis[static_cast<int>(device)];
  CHECK(api.mark, "this build has no ", device, " device");
  return api;
}

Moment::Moment(Stream stream) : device_(stream.device), native_(clock_of(device_).mark(stream)) {}
Moment::~Moment() { clock_of(device_).forget(native_); }
double Moment::ms_since(const Moment& begin) const {
  CHECK(begin.device_ == device_, "moments of ", begin.device_, " and ", device_);
  return clock_of(device_).ms(begin.native_, native_);
}

static int64_t ns(void* moment) { return *static_cast<int64_t*>(moment); }
static const AddClock cpu(Device::cpu,
                          {.mark = [](Stream) -> void* { return new int64_t(trace::now_ns()); },
                           .forget = [](void* moment) { delete static_cast<int64_t*>(moment); },
                           .ms = [](void* begin,
                                    void* end) { return double(ns(end) - ns(begin)) * 1e-6; }});

}  // namespace bellows
