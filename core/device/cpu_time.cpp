#include "core/device/cpu_time.h"
#include <fcntl.h>
#include <omp.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <memory>
#include <utility>
#include "core/base/file.h"
#include "core/device/parallel.h"
#include "core/device/timer.h"

namespace bellows {

namespace {

// Time for which a thread waited for a core: the second number in /proc/self/task/<tid>/schedstat.
class WaitClock {
 public:
  explicit WaitClock(long tid)
      : file_(::open(cat("/proc/self/task/", tid, "/schedstat").c_str(), O_RDONLY | O_CLOEXEC)) {}
  // Returns the ns waited since the last call, or since the thread began; 0 after it has ended.
  int64_t lap() {
    char text[80] = {};
    long long ran = 0, waited = 0;
    if (file_.get() < 0 || ::pread(file_.get(), text, sizeof(text) - 1, 0) <= 0 ||
        std::sscanf(text, "%lld %lld", &ran, &waited) != 2)
      return 0;
    return waited - std::exchange(last_, waited);
  }

 private:
  Descriptor file_;
  int64_t last_ = 0;
};

struct Watch {
  int threads = omp_get_max_threads();
  std::vector<std::unique_ptr<WaitClock>> clocks;  // one per OpenMP thread and worker
  int64_t waited_ns = 0, used_before_ns = 0;
};

Watch& watch() {
  static Watch all;
  return all;
}

}  // namespace

void watch_pool(int threads) {
  parallel_for(threads, 1, [](int64_t, int64_t) {});  // starts the workers
  std::vector<long> tids(static_cast<size_t>(threads));
#pragma omp parallel num_threads(threads)
  tids[static_cast<size_t>(omp_get_thread_num())] = syscall(SYS_gettid);
  const std::vector<long> workers = worker_ids();
  tids.insert(tids.end(), workers.begin(), workers.end());
  Watch& w = watch();
  w.threads = threads;
  w.clocks.clear();
  for (const long tid : tids) w.clocks.push_back(std::make_unique<WaitClock>(tid));
  for (const auto& clock : w.clocks) clock->lap();  // drops waits from before this watch
  w.waited_ns = 0;
  w.used_before_ns = time_ns(Clock::cpu);
}

int pool_threads() { return watch().threads; }

CpuTime cpu_time() {
  Watch& w = watch();
  for (const auto& clock : w.clocks) w.waited_ns += clock->lap();
  return {time_ns(Clock::cpu) - w.used_before_ns, w.waited_ns};
}

}  // namespace bellows
