// Ring: queue from one producer thread to one consumer thread, without a lock. Each end owns its
// index and sleeps on its semaphore only when it has to wait.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <semaphore>
#include <utility>
#include <vector>
#include "core/base/trace.h"

namespace bellows {

using Seconds = std::chrono::duration<double>;

// Number of items that wait in a queue. Its maximum is added to the counter data.queue_max. Each
// loader has one Depth, so the counter is the sum of the loaders' maxima.
class Depth {
 public:
  // Call after acquiring room for the item, before it can be taken.
  void add() {
    static trace::Counter& most = trace::counter("data.queue_max");
    const int64_t now = now_.fetch_add(1, std::memory_order_acq_rel) + 1;
    int64_t before = most_.load(std::memory_order_relaxed);
    while (before < now && !most_.compare_exchange_weak(before, now, std::memory_order_relaxed)) {
    }
    if (before < now) most.add(now - before);
  }
  // Call when a consumer requests an item, before that makes room for another one.
  void remove() { now_.fetch_sub(1, std::memory_order_acq_rel); }
  void clear() { now_.store(0, std::memory_order_relaxed); }  // the queue was dropped

 private:
  std::atomic<int64_t> now_{0}, most_{0};
};

template <class T> class Ring {
 public:
  // Holds up to `capacity` items; with 0, push() waits until a consumer is in pop().
  Ring(int64_t capacity, Depth& depth) : items_(capacity + 1), room_(capacity), depth_(depth) {}

  // Producer only. Waits for room; false once closed.
  bool push(T&& item) {
    room_.acquire();
    if (closed_.load(std::memory_order_acquire)) return false;
    depth_.add();
    items_[tail_++ % items_.size()] = std::move(item);
    ready_.release();
    return true;
  }
  // Consumer only. Makes room first, so that a ring of capacity 0 can pass an item on. False if
  // nothing arrived within `timeout`; must not be called again after that.
  bool pop(T& item, Seconds timeout) {
    depth_.remove();
    room_.release();
    if (!ready_.try_acquire_for(timeout)) return false;
    item = std::move(items_[head_++ % items_.size()]);
    return true;
  }
  void close() {
    closed_.store(true, std::memory_order_release);
    room_.release();
  }

 private:
  std::vector<T> items_;
  alignas(64) std::counting_semaphore<> room_;
  size_t tail_ = 0;
  alignas(64) std::counting_semaphore<> ready_{0};
  size_t head_ = 0;
  std::atomic<bool> closed_{false};
  Depth& depth_;
};

}  // namespace bellows
