#include "core/base/kernel_log.h"
#include <unistd.h>
#include <mutex>
#include <utility>
#include "core/base/trace.h"

namespace bellows::trace {

static std::mutex mutex;
static std::vector<KernelRun> runs;

void note_kernel(const std::string& name) {
  if (!kernels_logged.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex);
  runs.push_back({name, uint64_t(gettid()), now_ns()});
}

std::vector<KernelRun> take_kernels() {
  const std::lock_guard lock(mutex);
  return std::exchange(runs, {});
}

}  // namespace bellows::trace
