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
// load unless somebody collects or marks.
struct Event {
  const char* name;
  std::string path;  // of the module it ran in
  uint64_t thread;
  int64_t begin_ns, end_ns;
};
class Range {
 public:
  explicit Range(const char* name) : name_(wanted() ? name : nullptr) {
    if (name_) begin();
  }
  ~Range() {
    if (name_) end();
  }
  Range(Range&&) = delete;

 private:
  static bool wanted() { return wants.load(std::memory_order_relaxed) != 0; }
  void begin();
  void end() const;
  friend void collect(bool);
  friend void mark(bool);
  static inline std::atomic<int> wants{0};  // bits
  const char* name_;
  bool marked_ = false;
  int64_t begin_ns_ = 0;
};
void collect(bool on);
std::vector<Event> take_events();  // those that have ended since the last call

// A tool outside of the process that sees ranges: NVTX, which core/base/trace.cu registers.
struct Marker {
  void (*push)(const char* name, const std::string& path) = nullptr;
  void (*pop)() = nullptr;
  void (*profile)(bool on) = nullptr;  // tells the tool where the interesting part is
};
inline constinit Marker marker{};
bool add_marker(const Marker& tool, const char* file = __builtin_FILE());
// Hands ranges to the tool, if there is one, and tells it to start or to stop.
void mark(bool on);

int64_t now_ns();  // monotonic

}  // namespace bellows::trace
