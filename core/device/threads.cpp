#include "core/device/threads.h"
#include <fcntl.h>
#include <immintrin.h>
#include <omp.h>
#include <pthread.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <latch>
#include <memory>
#include <system_error>
#include <utility>
#include "core/base/file.h"
#include "core/base/trace.h"
#include "core/config/visitor.h"
#include "core/device/parallel.h"
#include "core/device/timer.h"
#include "core/device/topology.h"

namespace bellows {

void visit(Visitor& v, ThreadOptions& o) {
  v("threads", o.threads, "size of the pool; 0: OMP_NUM_THREADS, or one for each allowed core",
    {.min = 0, .max = 1024});
  v("budget", o.budget, "at most allowed cores / ranks on this machine");
  v("pinning", o.pinning, {"off", "compact", "spread", "list"},
    "a core for each thread, and which");
  v("cores", o.cores, "of pinning: list, as 0-3,8; empty: all allowed ones");
  v("numa_local", o.numa_local, "threads and memory on one NUMA node");
}

// OMP_NUM_THREADS as the runtime has read it, before anything sets another number. Without the
// variable, the runtime would use the affinity mask and ignore quotas.
static const int from_environment = std::getenv("OMP_NUM_THREADS") ? omp_get_max_threads() : 0;

// An operation on a denormal takes about a hundred cycles, and the momentum of a unit without
// gradient decays into denormals permanently. All threads of the pool flush them, or bits would
// depend on the number of threads.
static void flush_denormals() {
#pragma omp parallel
  _mm_setcsr(_mm_getcsr() | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
}

static std::ptrdiff_t live_threads() {
  std::ptrdiff_t count = 0;
  std::error_code none;
  for (std::filesystem::directory_iterator at("/proc/self/task", none), end; at != end;
       at.increment(none))
    ++count;
  return count;
}

// Returns how many threads, at most `wanted`, the system lets this process start now. libgomp would
// end the process if it could not start as many as it needs.
static int startable_threads(int wanted) {
  const std::ptrdiff_t before = live_threads();
  std::latch counted(1);
  std::vector<std::thread> started;
  started.reserve(wanted);
  try {
    while (std::ssize(started) < wanted) started.emplace_back([&] { counted.wait(); });
  } catch (const std::exception&) {  // the system has no thread, or no memory for one
  }
  counted.count_down();
  for (std::thread& thread : started) thread.join();
  // An ended thread counts against limits until it leaves this list, some time after join().
  for (int i = 0; i < 1000 && live_threads() > before; ++i) std::this_thread::yield();
  return static_cast<int>(std::ssize(started));
}

// ---- the time of its threads

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

// Starts watching the pool. Call it from the compute thread, after omp_set_num_threads.
static void watch_pool(int threads) {
  parallel_for(threads, 1, [](int64_t, int64_t) {});  // starts the workers
  std::vector<long> tids(static_cast<size_t>(threads));
#pragma omp parallel num_threads(threads)
  tids[static_cast<size_t>(omp_get_thread_num())] = gettid();
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

// ---- size and placement

std::string apply(const ThreadOptions& options, int local_ranks, int local_rank) {
  CHECK(local_ranks >= 1, "threads: ", local_ranks, " ranks on this machine");
  unpin_threads();
  if (options.numa_local) bind_to_node(local_rank);
  int threads = options.threads ? options.threads : from_environment;
  if (threads == 0) threads = allowed_cores();
  if (options.budget) {
    const int most = std::max(1, allowed_cores() / local_ranks);
    trace::count<"cpu.threads_withheld">(std::max(0, threads - most));
    threads = std::min(threads, most);
  }
  static int pool = 1;  // threads started by the runtime, plus the caller
  const int wanted = threads;
  // Each thread of OpenMP's team needs a worker as well (core/device/workers.h).
  if (wanted > pool) threads = pool + startable_threads(2 * (wanted - pool)) / 2;
  omp_set_num_threads(threads);
  flush_denormals();
  pool = threads;
  trace::counter("cpu.peak_threads").raise_to(threads);
  if (options.pinning != Pinning::off) {
    const std::vector<int> cores = parse_cpu_list(options.cores);
    CHECK(options.cores.empty() || !cores.empty(), "threads.cores: '", options.cores,
          "' is not a list of cores; write it as 0-3,8");
    pin_threads(options.pinning, cores);
  }
  watch_pool(threads);
  if (threads == wanted) return "";
  return cat("warning: the system lets this process start ", threads - 1, " of ", wanted - 1,
             " compute threads; raise the limit (ulimit -u, ulimit -v)");
}

int allowed_cores() {
  const int cores = static_cast<int>(process_cores().size());
  const int quota = quota_cores();
  return std::max(1, quota ? std::min(cores, quota) : cores);
}

// ---- cgroups: version 2 has "cpu.max", version 1 two files in a folder per controller

// Rounds down, because a thread beyond the quota is throttled in every period; at least 1.
static int cores_in(double quota, double period) {
  return quota > 0 && period > 0 ? int(std::clamp(quota / period, 1.0, 1e6)) : 0;
}

static int quota_of(const std::filesystem::path& group) {
  double quota = 0, period = 0;
  if (std::ifstream(group / "cpu.max") >> quota >> period) return cores_in(quota, period);
  std::ifstream(group / "cpu.cfs_quota_us") >> quota;  // -1: none
  std::ifstream(group / "cpu.cfs_period_us") >> period;
  return cores_in(quota, period);
}

// Returns the CPU controller's root and group, from "n:controllers:path" lines of the membership.
static std::pair<std::filesystem::path, std::filesystem::path> cpu_group(
    const std::filesystem::path& cgroups, const std::filesystem::path& membership) {
  std::ifstream lines(membership);
  std::filesystem::path path = "/";
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = cat(",", line.substr(first + 1, second - first - 1), ",");
    if (controllers.find(",cpu,") != std::string::npos)
      return {cgroups / "cpu", line.substr(second + 1)};
    if (controllers == ",,") path = line.substr(second + 1);
  }
  return {cgroups, path};
}

int quota_cores(const std::filesystem::path& cgroups, const std::filesystem::path& membership) {
  auto [root, group] = cpu_group(cgroups, membership);
  int fewest = 0;
  // In a container the path may be the host's; the files at the root are then the container's.
  for (;; group = group.parent_path()) {
    const int cores = quota_of(root / group.relative_path());
    if (cores) fewest = fewest ? std::min(fewest, cores) : cores;
    if (!group.has_relative_path()) return fewest;
  }
}

// ---- the calling thread

void name_thread(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  unpin_thread();
}

std::thread start_thread(const std::string& name, std::function<void()> body) {
  try {
    return std::thread([name, body = std::move(body)] {
      name_thread(name);
      body();
    });
  } catch (const std::system_error& error) {
    fail(Exit::memory, "cannot start the thread '", name, "': ", error.what(),
         "; raise the limit (ulimit -u, ulimit -v), or use fewer:  toggles.num_workers=0 "
         "threads.threads=1");
  }
}

}  // namespace bellows
