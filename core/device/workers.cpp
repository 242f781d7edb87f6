#include "core/device/workers.h"
#include <immintrin.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

namespace bellows {

// Rounds for which an idle worker spins before it sleeps: as many as libgomp's
// (bounded_spinning.cpp), tens of microseconds; 0 if there are more threads than cores.
static int64_t spin_rounds(int worker) {
  if (worker >= omp_get_num_procs()) return 0;
  const char* policy = std::getenv("OMP_WAIT_POLICY");
  const char* rounds = std::getenv("GOMP_SPINCOUNT");
  if (rounds) return std::strtoll(rounds, nullptr, 10);
  return policy && strcasecmp(policy, "passive") == 0 ? 0 : 10'000;
}

static thread_local int index_of_thread = 0;
int worker_index() { return index_of_thread; }

namespace {

constexpr int kMostThreads = 1025;

class Workers {
 public:
  void run(int64_t chunks, int threads, const ChunkBody& body) {
    start(std::min(threads, kMostThreads) - 1);
    threads = std::min(threads, 1 + count());
    body_ = body;
    chunks_ = chunks;
    modes_ = _mm_getcsr();
    done_.store(0, std::memory_order_relaxed);
    threads_.store(threads, std::memory_order_relaxed);
    resting_.store(false, std::memory_order_relaxed);
    for (int t = 0; t < threads; ++t)
      shares_[t].left.store(end_of(t) - end_of(t - 1), std::memory_order_release);
    regions_.fetch_add(1, std::memory_order_release);
    regions_.notify_all();
    take_chunks(0);
    // A worker that has begun a chunk may have lost its core. Yielding gives it this one.
    for (int64_t round = 0; done_.load(std::memory_order_acquire) < chunks; ++round)
      round < 3000 ? _mm_pause() : static_cast<void>(sched_yield());
  }

  void rest() { resting_.store(true, std::memory_order_relaxed); }
  int count() const { return static_cast<int>(ids.size()); }
  void restart(std::function<void(int)> on_start) {
    stop_ = true;
    regions_.fetch_add(1, std::memory_order_release);
    regions_.notify_all();
    for (std::thread& thread : threads_of_system_) thread.join();
    threads_of_system_.clear();
    ids.clear();
    stop_ = false;
    on_start_ = std::move(on_start);
  }

  std::mutex in_use;      // held by the thread whose region is in progress
  std::vector<long> ids;  // of the system

 private:
  // Chunks of a thread's share that have not begun. Each Share has its own cache line.
  struct alignas(64) Share {
    std::atomic<int64_t> left{0};
  };

  // Returns the chunk before which the share of thread t ends.
  int64_t end_of(int t) const { return (t + 1) * chunks_ / threads_; }

  void start(int wanted) {
    while (count() < wanted) {
      std::atomic<long> id = 0;
      try {
        threads_of_system_.emplace_back(
            [this, &id, worker = count() + 1, seen = regions_.load()] { work(worker, seen, id); });
      } catch (const std::system_error&) {
        return;  // the system grants no more threads
      }
      id.wait(0);
      ids.push_back(id);
    }
  }

  void work(int worker, uint32_t seen, std::atomic<long>& id) {
    index_of_thread = worker;
    pthread_setname_np(pthread_self(), "worker");
    omp_set_num_threads(1);  // libraries that a chunk calls stay on this thread
    if (on_start_) on_start_(worker);
    id = syscall(SYS_gettid);
    id.notify_one();
    for (const int64_t rounds = spin_rounds(worker);;) {
      for (int64_t round = 0; regions_.load(std::memory_order_acquire) == seen; ++round)
        round < rounds && !resting_.load(std::memory_order_relaxed) ? _mm_pause()
                                                                    : regions_.wait(seen);
      seen = regions_.load(std::memory_order_acquire);
      if (stop_) return;
      if (worker < threads_.load(std::memory_order_relaxed)) take_chunks(worker);
    }
  }

  // Runs chunks until all have begun: those of this thread's share first, then those of others. A
  // worker that comes late may find the next region here, and helps there.
  void take_chunks(int thread) {
    const int threads = threads_.load(std::memory_order_relaxed);
    for (int i = 0; i < threads; ++i) {
      const int owner = (thread + i) % threads;
      std::atomic<int64_t>& left = shares_[owner].left;
      while (left.load(std::memory_order_relaxed) > 0) {
        const int64_t mine = left.fetch_sub(1, std::memory_order_acq_rel);
        if (mine <= 0) break;
        if (thread > 0) _mm_setcsr(modes_);
        body_.call(body_.body, end_of(owner) - mine);
        done_.fetch_add(1, std::memory_order_release);
      }
    }
  }

  std::array<Share, kMostThreads> shares_;  // the caller's, then one for each worker
  std::vector<std::thread> threads_of_system_;
  std::function<void(int)> on_start_;
  std::atomic<uint32_t> regions_ = 0;  // regions begun so far
  std::atomic<bool> stop_ = false;
  std::atomic<bool> resting_ = false;  // workers sleep until the next region
  // The region in progress. A thread reads body_, chunks_ and modes_ after it has taken a chunk.
  ChunkBody body_ = {};
  int64_t chunks_ = 0;
  unsigned modes_ = 0;
  std::atomic<int> threads_ = 1;
  std::atomic<int64_t> done_ = 0;
};

// Never destroyed: workers may run until the process ends.
Workers& workers() {
  static Workers& all = *new Workers;
  return all;
}

}  // namespace

void run_chunks(int64_t chunks, int threads, const ChunkBody& body) {
  const std::unique_lock region(workers().in_use, std::try_to_lock);
  if (region) return workers().run(chunks, threads, body);
  for (int64_t c = 0; c < chunks; ++c) body.call(body.body, c);
}

void rest_workers() { workers().rest(); }
int worker_count() { return workers().count(); }
std::vector<long> worker_ids() { return workers().ids; }
void restart_workers(std::function<void(int)> on_start) { workers().restart(std::move(on_start)); }

}  // namespace bellows
