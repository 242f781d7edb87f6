#include "core/trace.h"
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include "core/module_path.h"

namespace bellows::trace {

namespace {
struct Collected {
  std::mutex mutex;
  std::map<std::string, Counter> counters;
  std::vector<Event> events;
};
}  // namespace

// Never destroyed: threads may still count while the program ends.
static Collected& collected() {
  static Collected& all = *new Collected;
  return all;
}

void Counter::raise_to(int64_t n) {
  int64_t seen = value();
  while (seen < n && !value_.compare_exchange_weak(seen, n, std::memory_order_relaxed)) {
  }
}

Counter& counter(const std::string& name) {
  const std::lock_guard lock(collected().mutex);
  return collected().counters[name];
}

std::map<std::string, int64_t> counters() {
  const std::lock_guard lock(collected().mutex);
  std::map<std::string, int64_t> values;
  for (const auto& [name, counter] : collected().counters) values[name] = counter.value();
  return values;
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Range::begin() { begin_ns_ = now_ns(); }

void Range::end() const {
  const uint64_t thread = std::hash<std::thread::id>()(std::this_thread::get_id());
  const std::lock_guard lock(collected().mutex);
  collected().events.push_back({name_, current_site()->path, thread, begin_ns_, now_ns()});
}

void collect(bool on) { Range::on = on; }

std::vector<Event> take_events() {
  const std::lock_guard lock(collected().mutex);
  return std::exchange(collected().events, {});
}

}  // namespace bellows::trace
