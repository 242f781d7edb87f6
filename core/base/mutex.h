// Mutex: a std::mutex that counts the acquisitions that had to wait (lock.contended). With the
// debug option lock_stats, each name also has its own counters: lock.<name>.contended and .wait_ns.
#pragma once
#include <atomic>
#include <mutex>
#include <string>
#include "core/base/trace.h"

namespace bellows {

class Mutex {
 public:
  explicit Mutex(const std::string& name)
      : contended_(trace::counter("lock." + name + ".contended")),
        wait_ns_(trace::counter("lock." + name + ".wait_ns")) {}
  Mutex(Mutex&&) = delete;

  void lock() {
    if (!mutex_.try_lock()) [[unlikely]]
      wait();
  }
  void unlock() { mutex_.unlock(); }

  // Turns lock_stats on or off. Cost: two clock reads for each acquisition that waits.
  static void collect_stats(bool on) { stats_ = on; }

 private:
  void wait() {
    trace::count<"lock.contended">();
    const trace::Range range("lock");
    if (!stats_.load(std::memory_order_relaxed)) return mutex_.lock();
    const int64_t begin = trace::now_ns();
    mutex_.lock();
    contended_.add();
    wait_ns_.add(trace::now_ns() - begin);
  }

  static inline std::atomic<bool> stats_{false};
  std::mutex mutex_;
  trace::Counter &contended_, &wait_ns_;
};

}  // namespace bellows
