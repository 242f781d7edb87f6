#include "data/loader/batch_queue.h"
#include <condition_variable>
#include <deque>
#include <optional>
#include <semaphore>
#include "core/base/mutex.h"

namespace bellows {

namespace {

// Calls wait(slice) until it returns true, `timeout` has passed or the wait is interrupted. Time in
// which the whole process is stopped counts as one slice.
bool within(Seconds timeout, const Interrupted& interrupted, const auto& wait) {
  constexpr Seconds kSlice(0.1);
  for (Seconds left = timeout; left.count() > 0; left -= kSlice) {
    if (wait(std::min(left, kSlice))) return true;
    if (interrupted && interrupted()) break;
  }
  return false;
}

// One queue and one lock for all workers; every change wakes all waiting threads.
class LockedQueue : public BatchQueue {
 public:
  LockedQueue(int64_t window, std::shared_ptr<Depth> depth)
      : window_(window), slots_(window + 1), depth_(std::move(depth)) {}

  bool push(int64_t turn, BatchResult&& made) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || turn < asked_ + window_; });
    if (closed_) return false;
    depth_->add();
    slots_[turn % slots_.size()] = std::move(made);
    changed_.notify_all();
    return true;
  }
  bool pop(BatchResult& made, Seconds timeout, const Interrupted& interrupted) override {
    std::unique_lock lock(mutex_);
    depth_->remove();
    std::optional<BatchResult>& next = slots_[asked_++ % slots_.size()];
    changed_.notify_all();
    const auto has_next = [&] { return next.has_value(); };
    const auto wait = [&](Seconds slice) { return changed_.wait_for(lock, slice, has_next); };
    if (!within(timeout, interrupted, wait)) return false;
    made = *std::exchange(next, {});
    return true;
  }
  void close() override {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  const int64_t window_;  // batches that may wait here
  int64_t asked_ = 0;     // batches requested so far
  bool closed_ = false;
  std::vector<std::optional<BatchResult>> slots_;
  const std::shared_ptr<Depth> depth_;
  Mutex mutex_{"loader_queue"};
  std::condition_variable_any changed_;
};

// A ring from each worker to the consumer, without a lock. Each end owns its index and sleeps on
// its semaphore only when it has to wait. Turns are assigned round-robin, so popping the rings in
// that order merges them.
class RingQueue : public BatchQueue {
 public:
  RingQueue(int64_t workers, int64_t prefetch, std::shared_ptr<Depth> depth)
      : depth_(std::move(depth)) {
    for (int64_t w = 0; w < workers; ++w) rings_.emplace_back(prefetch);
  }

  bool push(int64_t turn, BatchResult&& made) override {
    Ring& ring = rings_[turn % rings_.size()];
    ring.room.acquire();
    if (closed_.load(std::memory_order_acquire)) return false;
    depth_->add();
    ring.items[ring.tail++ % ring.items.size()] = std::move(made);
    ring.ready.release();
    return true;
  }
  // Makes room first, so that a ring of capacity 0 can pass a batch on.
  bool pop(BatchResult& made, Seconds timeout, const Interrupted& interrupted) override {
    trace::count<"data.ring_pops">();
    Ring& ring = rings_[turn_++ % rings_.size()];
    depth_->remove();
    ring.room.release();
    const auto wait = [&](Seconds slice) { return ring.ready.try_acquire_for(slice); };
    if (!within(timeout, interrupted, wait)) return false;
    made = std::move(ring.items[ring.head++ % ring.items.size()]);
    return true;
  }
  void close() override {
    closed_.store(true, std::memory_order_release);
    for (Ring& ring : rings_) ring.room.release();
  }

 private:
  struct Ring {
    explicit Ring(int64_t capacity) : items(capacity + 1), room(capacity) {}
    std::vector<BatchResult> items;
    alignas(64) std::counting_semaphore<> room;
    size_t tail = 0;
    alignas(64) std::counting_semaphore<> ready{0};
    size_t head = 0;
  };

  const std::shared_ptr<Depth> depth_;
  std::deque<Ring> rings_;
  std::atomic<bool> closed_{false};
  int64_t turn_ = 0;
};

}  // namespace

std::unique_ptr<BatchQueue> make_queue(QueueKind kind, int64_t workers, int64_t prefetch,
                                       std::shared_ptr<Depth> depth) {
  depth->clear();
  if (kind == QueueKind::rings)
    return std::make_unique<RingQueue>(workers, prefetch, std::move(depth));
  return std::make_unique<LockedQueue>(workers * prefetch, std::move(depth));
}

}  // namespace bellows
