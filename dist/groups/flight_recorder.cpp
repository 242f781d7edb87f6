#include "dist/groups/flight_recorder.h"
#include <fmt/format.h>
#include <chrono>
#include "core/base/trace.h"

namespace bellows {

std::string description_of(const Collective& c) {
  if (!c.elements) return cat(c.op, ": ", c.what);
  return cat(c.op, " of ", c.elements, " ", c.dtype, ": ", c.what);
}
std::string place_of(const Collective& c) {
  return c.step ? cat("step ", c.step, ", ", c.what) : c.what;
}

static int64_t wall_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

int64_t FlightRecorder::start(Collective c) {
  trace::count<"dist.collectives">();
  trace::count<"dist.bytes">(c.elements * size_of(c.dtype));
  const std::lock_guard lock(mutex_);
  c.sequence = ++started_;
  entries_.push_back({std::move(c), wall_us()});
  if (int64_t(entries_.size()) > capacity_) entries_.pop_front();
  return started_;
}

void FlightRecorder::finish(int64_t sequence) {
  const std::lock_guard lock(mutex_);
  const int64_t first = started_ - int64_t(entries_.size()) + 1;
  if (sequence >= first) entries_[sequence - first].done_us = wall_us();
}

int64_t FlightRecorder::started() const {
  const std::lock_guard lock(mutex_);
  return started_;
}

std::string FlightRecorder::report() const {
  const std::lock_guard lock(mutex_);
  std::string lines;
  for (const auto& [c, started, done] : entries_) {
    const int64_t ms = started / 1000, s = ms / 1000;
    lines += fmt::format(
        "collective {}, step {}: {} ({} bytes); started {:02}:{:02}:{:02}.{:03}, {}\n", c.sequence,
        c.step, description_of(c), c.elements * size_of(c.dtype), s / 3600 % 24, s / 60 % 60,
        s % 60, ms % 1000,
        done < 0 ? "not done" : fmt::format("done after {:.2f} ms", double(done - started) / 1e3));
  }
  return lines;
}

}  // namespace bellows
