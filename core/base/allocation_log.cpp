#include "core/base/allocation_log.h"
#include <mutex>
#include <new>
#include <utility>
#include "core/base/trace.h"

namespace bellows {

namespace {
struct Log {
  std::mutex mutex;
  std::vector<Allocation> entries;
};
}  // namespace

// Never destroyed: tensors in static objects are released after main().
static Log& log_of_process() {
  static Log& log = *new Log;
  return log;
}

// Releasing a tensor never fails: without memory for its entry, the log goes on without it.
void note_allocation(const void* block, int64_t bytes, int device) noexcept try {
  const std::lock_guard lock(log_of_process().mutex);
  log_of_process().entries.push_back({block, bytes, current_site(), trace::now_ns(), device});
} catch (const std::bad_alloc&) {
}

void log_allocations(bool on) { allocations_logged = on; }

std::vector<Allocation> take_allocations() {
  const std::lock_guard lock(log_of_process().mutex);
  return std::exchange(log_of_process().entries, {});
}

}  // namespace bellows
