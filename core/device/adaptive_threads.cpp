#include "core/device/adaptive_threads.h"
#include <fcntl.h>
#include <omp.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include "core/base/file.h"
#include "core/base/trace.h"
#include "core/device/parallel.h"
#include "core/device/timer.h"

namespace bellows {

// ---- the rule

static constexpr double kCrowded = 0.2;

static int fewer(int threads, double waited) {
  return std::clamp(static_cast<int>(threads * (1 - waited)), 1, std::max(1, threads - 1));
}

int ThreadGovernor::next(int64_t now_ns, int64_t window_ns, double waited) {
  const bool crowded = waited > kCrowded;
  if (now_ns > retry_at_ns_ + pause_ns_) pause_ns_ = 0;  // no crowding for the last pause's time
  if (in_use_ < all_) {
    if (now_ns >= retry_at_ns_) return in_use_ = all_;
    if (crowded) in_use_ = fewer(in_use_, waited);
    return in_use_;
  }
  if (crowded && all_ > 1) {
    const int64_t shortest = std::max<int64_t>(4 * window_ns, 100'000'000);
    const int64_t longest = std::max<int64_t>(64 * window_ns, 2'000'000'000);
    pause_ns_ = std::clamp(2 * pause_ns_, shortest, longest);
    retry_at_ns_ = now_ns + pause_ns_;
    return in_use_ = fewer(all_, waited);
  }
  return in_use_;
}

// ---- the pool

namespace {

// Time for which a thread waited for a core: the second number in /proc/self/task/<tid>/schedstat.
class WaitClock {
 public:
  explicit WaitClock(long tid)
      : file_(::open(cat("/proc/self/task/", tid, "/schedstat").c_str(), O_RDONLY | O_CLOEXEC)) {}
  // False if the system keeps no such statistics.
  bool readable() const { return file_.get() >= 0; }
  // Returns ns since the last call, at first since the thread began; 0 after it has ended.
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
  Adaptive adaptive = Adaptive::off;
  ThreadGovernor governor{threads};
  std::vector<std::unique_ptr<WaitClock>> clocks;  // of the OpenMP team and the workers
  int64_t window_begin_ns = 0;
  int64_t window_waited_ns = 0, waited_ns = 0;
  int64_t used_before_ns = 0;

  int in_use() const { return threads_in_use(); }

  void use(int n) {
    thread_limit() = n < threads ? n : std::numeric_limits<int>::max();
    if (adaptive == Adaptive::all) omp_set_num_threads(n);
    find_threads();
  }

  void find_threads() {
    parallel_for(in_use(), 1, [](int64_t, int64_t) {});  // starts the workers
    std::vector<long> tids(static_cast<size_t>(in_use()));
#pragma omp parallel num_threads(in_use())
    tids[static_cast<size_t>(omp_get_thread_num())] = syscall(SYS_gettid);
    const std::vector<long> workers = worker_ids();
    tids.insert(tids.end(), workers.begin(), workers.end());
    clocks.clear();
    for (const long tid : tids) clocks.push_back(std::make_unique<WaitClock>(tid));
    for (const auto& clock : clocks) clock->lap();  // drops waits from before this watch
  }

  bool readable() const {
    return std::ranges::any_of(clocks, [](const auto& c) { return c->readable(); });
  }
  void read() {
    int64_t waited = 0;
    for (const auto& clock : clocks) waited += clock->lap();
    window_waited_ns += waited;
    waited_ns += waited;
  }

  void begin_window() {
    window_begin_ns = trace::now_ns();
    window_waited_ns = 0;
  }
};

}  // namespace

static Watch& watch() {
  static Watch all;
  return all;
}

void watch_pool(int threads, Adaptive adaptive) {
  Watch& w = watch();
  w.threads = threads;
  w.adaptive = adaptive;
  w.governor = ThreadGovernor(threads);
  w.use(threads);
  w.waited_ns = 0;
  w.used_before_ns = time_ns(Clock::cpu);
  w.window_begin_ns = 0;
}

int pool_threads() { return watch().threads; }

void adapt_threads() {
  constexpr int64_t kWindow = 20'000'000;
  Watch& w = watch();
  if (w.adaptive == Adaptive::off) return;
  const int64_t now = trace::now_ns(), window = now - w.window_begin_ns;
  if (window < kWindow) return;
  w.read();
  if (w.readable()) trace::count<"cpu.wait_readings">();
  if (w.window_begin_ns == 0) return w.begin_window();  // ignores what came before the first step
  const int before = w.in_use();
  const double all = static_cast<double>(window) * before;
  const int after = w.governor.next(now, window, static_cast<double>(w.window_waited_ns) / all);
  if (after != before) w.use(after);
  if (after < before) {
    trace::count<"cpu.fewer_threads">();
    if (w.adaptive == Adaptive::all) trace::count<"cpu.library_threads">();
  }
  w.begin_window();
}

CpuTime cpu_time() {
  Watch& w = watch();
  w.read();
  return {time_ns(Clock::cpu) - w.used_before_ns, w.waited_ns};
}

}  // namespace bellows
