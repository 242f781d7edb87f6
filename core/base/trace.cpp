#include "core/base/trace.h"
#include <unistd.h>
#include <chrono>
#include <mutex>
#include <new>
#include <utility>

namespace bellows::trace {

namespace {
struct Collected {
  std::mutex mutex;
  std::map<std::string, Counter> counters;
  std::vector<Event> events;
  std::vector<Allocation> allocations;
  std::vector<KernelRun> kernels;
};
}  // namespace

// Never destroyed: after main(), threads may still count, and static objects release their tensors.
static Collected& collected() {
  static Collected& all = *new Collected;
  return all;
}

void Counter::raise_to(int64_t n) {
  int64_t seen = value();
  while (seen < n && !value_.compare_exchange_weak(seen, n, std::memory_order_relaxed)) {
  }
}

Counter& counter(std::string_view name) {
  const std::lock_guard lock(collected().mutex);
  return collected().counters[std::string(name)];
}

int64_t value_of(const Counters& counters, const std::string& name) {
  const auto found = counters.find(name);
  return found == counters.end() ? 0 : found->second;
}

Counters counters() {
  const std::lock_guard lock(collected().mutex);
  Counters values;
  for (const auto& [name, counter] : collected().counters) values[name] = counter.value();
  return values;
}

Counters moved_since(const Counters& before) {
  Counters moved = counters();
  for (const auto& [name, value] : before) moved[name] -= value;
  std::erase_if(moved, [](const auto& counter) { return counter.second == 0; });
  return moved;
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

static constexpr int kCollect = 1, kMark = 2;

void Range::begin() {
  marked_ = (wants & kMark) && marker.push;
  if (marked_) marker.push(name_, current_site()->path);
  begin_ns_ = now_ns();
}

void Range::end() const {
  const int64_t end_ns = now_ns();
  if (marked_) marker.pop();
  if (!(wants & kCollect)) return;
  const auto thread = static_cast<uint64_t>(gettid());
  const std::lock_guard lock(collected().mutex);
  collected().events.push_back({name_, current_site()->path, thread, begin_ns_, end_ns});
}

static void set(std::atomic<int>& wants, int bit, bool on) {
  on ? wants.fetch_or(bit) : wants.fetch_and(~bit);
}
void collect(bool on) { set(Range::wants, kCollect, on); }
void mark(bool on) {
  if (on && marker.profile) marker.profile(true);
  set(Range::wants, kMark, on);
  if (!on && marker.profile) marker.profile(false);
}

std::vector<Event> take_events() {
  const std::lock_guard lock(collected().mutex);
  return std::exchange(collected().events, {});
}

// Releasing a tensor must not fail, so an entry that finds no memory is left out.
void note_allocation(const void* block, int64_t bytes, int device) noexcept {
  try {
    const std::lock_guard lock(collected().mutex);
    collected().allocations.push_back({block, bytes, current_site(), now_ns(), device});
  } catch (const std::bad_alloc&) {
  }
}

std::vector<Allocation> take_allocations() {
  const std::lock_guard lock(collected().mutex);
  return std::exchange(collected().allocations, {});
}

void note_kernel(const std::string& name) {
  if (!kernels_logged.load(std::memory_order_relaxed)) return;
  const char* const kernel = running_kernel();
  const std::lock_guard lock(collected().mutex);
  collected().kernels.push_back(
      {name, current_site()->path, kernel ? kernel : "", uint64_t(gettid()), now_ns()});
}

std::vector<KernelRun> take_kernels() {
  const std::lock_guard lock(collected().mutex);
  return std::exchange(collected().kernels, {});
}

}  // namespace bellows::trace
