// Finds the places where the host waits for the device in the middle of a step: the calls of
// synchronize() (core/device/device.h). It does not see the driver's own waits: the calls that free
// device memory, and those for page-locked memory, may wait for all work.
#pragma once
#include <string>
#include <vector>
#include "core/base/scoped.h"

namespace bellows {

enum class OnSync { ignore, warn, refuse };

// While it lives, each wait of this thread for a device is reported (take_sync_reports) or throws
// Error, exit 9, with the line that waits. An inner guard takes precedence: use
// SyncGuard(OnSync::ignore) where waiting is expected, as at log steps.
struct SyncGuard : Scoped<OnSync> {
  explicit SyncGuard(OnSync on_sync);
};

// Returns the new reports, in order. Each place is reported once per process. Thread-safe.
std::vector<std::string> take_sync_reports();

}  // namespace bellows
