// Counters that prove a code path ran ("footprints"), named ranges of time, and a log of
// allocations.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>
#include "core/base/module_path.h"

namespace bellows::trace {

class Counter {
 public:
  void add(int64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  void raise_to(int64_t n);  // keeps the maximum, for peaks
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

// Returns the counter of that name, created on first use. Thread-safe. Its address never changes.
Counter& counter(std::string_view name);
using Counters = std::map<std::string, int64_t>;
Counters counters();  // values of all counters that exist
int64_t value_of(const Counters& counters, const std::string& name);  // 0 if it does not exist
Counters moved_since(const Counters& before);  // increases of the counters that changed

// Adds n to a counter, which is looked up only once: trace::count<"data.pinned_copy">();
template <size_t size> struct CounterName {  // makes a literal a template argument
  consteval CounterName(const char (&literal)[size]) {
    std::char_traits<char>::copy(text, literal, size);
  }
  char text[size];
};
template <CounterName name> inline void count(int64_t n = 1) {
  static Counter& found = counter(name.text);
  found.add(n);
}

// Range: the time that this thread spends in a scope, even if an exception ends it. Costs one
// atomic load unless collect() or mark() is on. Event: a range that has ended.
struct Event {
  std::string name, path;  // path: the module that it ran in
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
  static inline std::atomic<int> wants{0};  // bits: collect() and mark()
  const char* name_;
  bool marked_ = false;
  int64_t begin_ns_ = 0;
};
void collect(bool on);
std::vector<Event> take_events();  // ranges that ended since the last call

// External tool that shows ranges: NVTX, which core/base/trace.cu provides.
struct Marker {
  void (*push)(const char* name, const std::string& path) = nullptr;
  void (*pop)() = nullptr;
  void (*profile)(bool on) = nullptr;  // starts or stops the tool's profile window
};
inline constinit Marker marker{};
// Starts or stops sending ranges to the tool, if there is one, and its profile window.
void mark(bool on);

int64_t now_ns();  // monotonic

// A log of the blocks that tensors take and return, for profiles of memory. While the log is off,
// each block costs one atomic load. All functions are thread-safe.
struct Allocation {
  const void* block;
  int64_t bytes;           // negative: the block was released
  const ModuleSite* site;  // module of the calling thread
  int64_t at_ns;           // from now_ns()
  int device = 0;          // value of a Device
};
inline constinit std::atomic<bool> allocations_logged{false};  // true: the log is on
std::vector<Allocation> take_allocations();  // entries since the last call, in order
// Notes that a block was allocated, or with negative `bytes` released. For the allocator.
void note_allocation(const void* block, int64_t bytes, int device) noexcept;

// A log of the implementations that ran: "winograd", "brgconv:avx512_core". A plain implementation
// is not noted. While the log is off, a run costs one atomic load.
struct KernelRun {
  std::string name;
  std::string module, kernel;  // "conv1", "conv2d"; empty outside modules and kernels
  uint64_t thread;
  int64_t at_ns;  // from now_ns()
};
inline constinit std::atomic<bool> kernels_logged{false};  // true: the log is on
void note_kernel(const std::string& name);                 // an implementation runs now
std::vector<KernelRun> take_kernels();                     // entries since the last call, in order

}  // namespace bellows::trace
