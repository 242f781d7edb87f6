#include "core/base/kernel_log.h"
#include <unistd.h>
#include <mutex>
#include <utility>
#include "core/base/module_path.h"
#include "core/base/trace.h"

namespace bellows::trace {

static std::mutex mutex;
static std::vector<KernelRun> runs;

void note_kernel(const std::string& name) {
  if (!kernels_logged.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex);
  const char* const kernel = running_kernel();
  runs.push_back({name, current_site()->path, kernel ? kernel : "", uint64_t(gettid()), now_ns()});
}

std::vector<KernelRun> take_kernels() {
  const std::lock_guard lock(mutex);
  return std::exchange(runs, {});
}

}  // namespace bellows::trace
