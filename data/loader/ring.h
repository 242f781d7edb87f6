// Ring: what passes from one thread to one other, in order. No lock: each end owns its index, and
// its semaphore puts it to sleep only when there is nothing to do.
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

// How many items wait in a queue. The most that ever did is added to data.queue_max: each loader
// has a Depth, so the counter is the sum over the loaders of what each of them kept at most.
class Depth {
 public:
  // After room was got for the item, before it can be taken.
  void add() {
    static trace::Counter& most = trace::counter("data.queue_max");
    const int64_t now = now_.fetch_add(1, std::memory_order_acq_rel) + 1;
    int64_t before = most_.load(std::memory_order_relaxed);
    while (before < now && !most_.compare_exchange_weak(before, now, std::memory_order_relaxed)) {
    }
    if (before < now) most.add(now - before);
  }
  // When somebody comes for an item, before that makes room for another one.
  void remove() { now_.fetch_sub(1, std::memory_order_acq_rel); }
  void clear() { now_.store(0, std::memory_order_relaxed); }  // the queue was dropped

 private:
  std::atomic<int64_t> now_{0}, most_{0};
};

template <class T> class Ring {
 public:
  // `capacity` items wait in it at most; 0 hands each over to a consumer that is already there.
  Ring(int64_t capacity, Depth& depth) : items_(capacity + 1), room_(capacity), depth_(depth) {}

  // The producer's end. Waits for room; false once closed.
  bool push(T&& item) {
    room_.acquire();
    if (closed_.load(std::memory_order_acquire)) return false;
    depth_.add();
    items_[tail_++ % items_.size()] = std::move(item);
    ready_.release();
    return true;
  }
  // The consumer's end. Its coming makes room, so that a producer may hand over without a queue.
  // False if nothing came in time: then it must not be called again.
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
