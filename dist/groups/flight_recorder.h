// FlightRecorder: the last collectives of this rank, for the report of a failure.
#pragma once
#include <fmt/format.h>
#include <chrono>
#include <deque>
#include <mutex>
#include <string>
#include "core/base/dtype.h"
#include "core/base/trace.h"

namespace bellows {

// A collective as a rank started it.
struct Collective {
  std::string op;  // "all_reduce (mean)", "broadcast (root 0)", "barrier"
  int64_t elements = 0;
  DType dtype = DType::f32;
  std::string what;      // name that the caller gave it: "bucket 2"
  int64_t step = 0;      // update in progress; 0: none yet
  int64_t sequence = 0;  // number in the group, from 1; equal on all ranks
};
// Returns "all_reduce (mean) of 1024 f32: bucket 2": equal on all ranks that do the same.
inline std::string description_of(const Collective& c) {
  if (!c.elements) return cat(c.op, ": ", c.what);
  return cat(c.op, " of ", c.elements, " ", c.dtype, ": ", c.what);
}
// Returns "step 12, bucket 2", for errors.
inline std::string place_of(const Collective& c) {
  return c.step ? cat("step ", c.step, ", ", c.what) : c.what;
}

// Thread-safe. Counters: dist.collectives (all of them, also votes, evaluations and barriers;
// buckets alone are dist.buckets), dist.bytes (of the tensors, not of the wire).
class FlightRecorder {
 public:
  explicit FlightRecorder(int64_t capacity) : capacity_(capacity) {}

  // Records that a collective was started. Returns its sequence number.
  int64_t start(Collective c) {
    trace::count<"dist.collectives">();
    trace::count<"dist.bytes">(c.elements * size_of(c.dtype));
    const std::lock_guard lock(mutex_);
    c.sequence = ++started_;
    entries_.push_back({std::move(c), wall_us()});
    if (int64_t(entries_.size()) > capacity_) entries_.pop_front();
    return started_;
  }
  void finish(int64_t sequence) {
    const std::lock_guard lock(mutex_);
    const int64_t first = started_ - int64_t(entries_.size()) + 1;
    if (sequence >= first) entries_[sequence - first].done_us = wall_us();
  }
  // Returns the sequence number of the last collective that was started.
  int64_t started() const {
    const std::lock_guard lock(mutex_);
    return started_;
  }

  // Returns a line for each recorded collective, oldest first, with wall times in UTC:
  // "collective 7, step 2: barrier: end; started 12:30:01.250, done after 1.21 ms"
  std::string report() const {
    const std::lock_guard lock(mutex_);
    std::string lines;
    for (const auto& [c, started, done] : entries_) {
      const int64_t ms = started / 1000, s = ms / 1000;
      lines += fmt::format(
          "collective {}, step {}: {} ({} bytes); started {:02}:{:02}:{:02}.{:03}, {}\n",
          c.sequence, c.step, description_of(c), c.elements * size_of(c.dtype), s / 3600 % 24,
          s / 60 % 60, s % 60, ms % 1000,
          done < 0 ? "not done"
                   : fmt::format("done after {:.2f} ms", double(done - started) / 1e3));
    }
    return lines;
  }

 private:
  static int64_t wall_us() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  }

  struct Entry {
    Collective collective;
    int64_t started_us;    // since the epoch
    int64_t done_us = -1;  // -1: not done
  };
  const int64_t capacity_;
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;  // consecutive sequence numbers
  int64_t started_ = 0;
};

}  // namespace bellows
