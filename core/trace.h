// Counters that prove a code path ran ("footprints"), and named ranges of time.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace bellows::trace {

class Counter {
 public:
  void add(int64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  void raise_to(int64_t n);  // for peaks
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

// The counter of that name, made on first use. Thread-safe, and its address never changes, so a
// hot path looks it up once:  static trace::Counter& pinned = trace::counter("data.pinned_copy");
Counter& counter(const std::string& name);
std::map<std::string, int64_t> counters();  // a snapshot of all that were ever asked for

// A range of this thread's time, from construction to destruction, also on an exception. Costs one
// load unless somebody collects; core/trace.cu hands the same ranges to NVTX.
struct Event {
  const char* name;
  std::string path;  // of the module it ran in
  uint64_t thread;
  int64_t begin_ns, end_ns;
};
class Range {
 public:
  explicit Range(const char* name) : name_(collecting() ? name : nullptr) {
    if (name_) begin();
  }
  ~Range() {
    if (name_) end();
  }
  Range(const Range&) = delete;

 private:
  static bool collecting() { return on.load(std::memory_order_relaxed); }
  void begin();
  void end() const;
  friend void collect(bool);
  static inline std::atomic<bool> on{false};
  const char* name_;
  int64_t begin_ns_ = 0;
};
void collect(bool on);
std::vector<Event> take_events();  // those that have ended since the last call

int64_t now_ns();  // monotonic

}  // namespace bellows::trace
