// Finds the places where the host waits for the device in the middle of a step.
#pragma once
#include <source_location>
#include <string>
#include <vector>

namespace bellows {

enum class OnSync { ignore, warn, refuse };

// While one lives, a wait of this thread for a device is reported (take_sync_reports) or refused
// (exit 9), with the line that asked for it. An inner one prevails: where waiting is expected, at
// log steps, it is SyncGuard(OnSync::ignore).
class SyncGuard {
 public:
  explicit SyncGuard(OnSync on_sync);
  ~SyncGuard();
  SyncGuard(SyncGuard&&) = delete;

 private:
  OnSync previous_;
};

// Each place once in the life of the process, in the order they were found.
std::vector<std::string> take_sync_reports();

namespace detail {
void note_sync(const std::source_location& at);
}
}  // namespace bellows
