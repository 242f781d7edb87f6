#include "data/loader/batch_queue.h"
#include <condition_variable>
#include <deque>
#include <optional>
#include <semaphore>
#include "core/base/mutex.h"

namespace bellows {

namespace {

// Calls wait(slice), which waits that long, until it returns true, `timeout` has passed or the wait
// is interrupted. The clock goes on while the whole process is stopped; that costs one slice,
// however long it is.
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
    slot(turn) = std::move(made);
    changed_.notify_all();
    return true;
  }
  bool pop(BatchResult& made, Seconds timeout, const Interrupted& interrupted) override {
    std::unique_lock lock(mutex_);
    depth_->remove();
    std::optional<BatchResult>& next = slot(asked_++);
    changed_.notify_all();
    const auto has_next = [&] { return next.has_value(); };
    const auto wait = [&](Seconds slice) { return changed_.wait_for(lock, slice, has_next); };
    if (!within(timeout, interrupted, wait)) return false;
    made = std::move(*next);
    next.reset();
    return true;
  }
  void close() override {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  std::optional<BatchResult>& slot(int64_t turn) { return slots_[turn % slots_.size()]; }

  const int64_t window_;  // batches that may wait here
  int64_t asked_ = 0;     // batches requested so far
  bool closed_ = false;
  std::vector<std::optional<BatchResult>> slots_;
  const std::shared_ptr<Depth> depth_;
  Mutex mutex_{"loader_queue"};
  std::condition_variable_any changed_;
};

// Queue from one producer thread to one consumer thread, without a lock. Each end owns its index
// and sleeps on its semaphore only when it has to wait.
class Ring {
 public:
  // Holds up to `capacity` items; with 0, push() waits until a consumer is in pop().
  Ring(int64_t capacity, Depth& depth) : items_(capacity + 1), room_(capacity), depth_(depth) {}

  // Producer only. Waits for room; false once closed.
  bool push(BatchResult&& item) {
    room_.acquire();
    if (closed_.load(std::memory_order_acquire)) return false;
    depth_.add();
    items_[tail_++ % items_.size()] = std::move(item);
    ready_.release();
    return true;
  }
  // Consumer only. Makes room first, so that a ring of capacity 0 can pass an item on. False if
  // nothing arrived; must not be called again after that.
  bool pop(BatchResult& item, Seconds timeout, const Interrupted& interrupted) {
    depth_.remove();
    room_.release();
    const auto wait = [&](Seconds slice) { return ready_.try_acquire_for(slice); };
    if (!within(timeout, interrupted, wait)) return false;
    item = std::move(items_[head_++ % items_.size()]);
    return true;
  }
  void close() {
    closed_.store(true, std::memory_order_release);
    room_.release();
  }

 private:
  std::vector<BatchResult> items_;
  alignas(64) std::counting_semaphore<> room_;
  size_t tail_ = 0;
  alignas(64) std::counting_semaphore<> ready_{0};
  size_t head_ = 0;
  std::atomic<bool> closed_{false};
  Depth& depth_;
};

// One ring per worker. Turns are dealt round-robin, so popping the rings in that order merges them.
class RingQueue : public BatchQueue {
 public:
  RingQueue(int64_t workers, int64_t prefetch, std::shared_ptr<Depth> depth)
      : depth_(std::move(depth)) {
    for (int64_t w = 0; w < workers; ++w) rings_.emplace_back(prefetch, *depth_);
  }
  bool push(int64_t turn, BatchResult&& made) override { return ring(turn).push(std::move(made)); }
  bool pop(BatchResult& made, Seconds timeout, const Interrupted& interrupted) override {
    trace::count<"data.ring_pops">();
    return ring(turn_++).pop(made, timeout, interrupted);
  }
  void close() override {
    for (Ring& ring : rings_) ring.close();
  }

 private:
  Ring& ring(int64_t turn) { return rings_[turn % rings_.size()]; }

  const std::shared_ptr<Depth> depth_;
  std::deque<Ring> rings_;
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
