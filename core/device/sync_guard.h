// Finds the places where the host waits for the device in the middle of a step.
#pragma once
#include <source_location>
#include <string>
#include <vector>

namespace bellows {

enum class OnSync { ignore, warn, refuse };

// While it lives, each wait of this thread for a device is reported (take_sync_reports) or throws
// Error, exit 9, with the line that waits. An inner guard takes precedence: use
// SyncGuard(OnSync::ignore) where waiting is expected, as at log steps.
class SyncGuard {
 public:
  explicit SyncGuard(OnSync on_sync);
  ~SyncGuard();
  SyncGuard(SyncGuard&&) = delete;

 private:
  OnSync previous_;
};

// Returns the new reports, in order. Each place is reported once per process. Thread-safe.
std::vector<std::string> take_sync_reports();

namespace detail {
void note_sync(const std::source_location& at);
}
}  // namespace bellows
