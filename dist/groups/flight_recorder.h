// FlightRecorder: the last collectives of this rank, for the report of a failure.
#pragma once
#include <deque>
#include <mutex>
#include <string>
#include "core/base/dtype.h"

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
std::string description_of(const Collective& c);
// Returns "step 12, bucket 2", for errors.
std::string place_of(const Collective& c);

// Thread-safe. Counters: dist.collectives (all of them, also votes, evaluations and barriers;
// buckets alone are dist.buckets), dist.bytes (of the tensors, not of the wire).
class FlightRecorder {
 public:
  explicit FlightRecorder(int64_t capacity) : capacity_(capacity) {}

  // Records that a collective was started. Returns its sequence number.
  int64_t start(Collective c);
  void finish(int64_t sequence);
  int64_t started() const;  // sequence number of the last collective that was started

  // Returns a line for each recorded collective, oldest first, with wall times in UTC:
  // "collective 7, step 2: barrier: end; started 12:30:01.250, done after 1.21 ms"
  std::string report() const;

 private:
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
