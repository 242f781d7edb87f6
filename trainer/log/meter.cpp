#include "trainer/log/meter.h"
#include <fmt/format.h>
#include <algorithm>
#include <utility>
#include "core/base/trace.h"
#include "core/base/words.h"

namespace bellows {

Meter::Meter(Clock clock) : clock_(clock), last_(clock()) {}

void Meter::lap(Phase phase) {
  const int64_t now = clock_();
  total_[static_cast<int>(phase)] += now - last_;
  last_ = now;
}

void Meter::count(int64_t samples) {
  ++iterations_;
  window_samples_ += samples;
  samples_ += samples;
}

// Returns 0 for an empty window or a clock that has not advanced, so a log never contains Inf.
static double ratio(double a, double b) { return b > 0 ? a / b : 0; }

Meter::Window Meter::window() const {
  const auto since = [&](Phase phase) {
    const int i = static_cast<int>(phase);
    return (total_[i] - taken_[i]) * 1e-9;
  };
  const double load = since(Phase::load), time = load + since(Phase::step);
  const auto n = double(iterations_);
  return {ratio(time, n), ratio(load, n), ratio(double(window_samples_), time)};
}

Meter::Window Meter::take() {
  const Window ended = window();
  taken_ = total_;
  iterations_ = window_samples_ = 0;
  return ended;
}

double Meter::total_seconds() const {
  int64_t sum = 0;
  for (const int64_t ns : total_) sum += ns;
  return sum * 1e-9;
}

double Meter::ips() const {
  return ratio(double(samples_), seconds(Phase::load) + seconds(Phase::step));
}

// ---- samples of varying length

void PaddingGauge::add(const BatchCounts& counts) {
  trace::count<"data.positions">(counts.positions);
  trace::count<"data.padding">(counts.padding);
  window_.positions += counts.positions;
  window_.padding += counts.padding;
  window_.imbalance = std::max(window_.imbalance, counts.imbalance);
}

Scalars PaddingGauge::take() {
  const BatchCounts window = std::exchange(window_, {});
  if (window.positions == 0) return {};
  return {{"padding_share", ratio(double(window.padding), double(window.positions))},
          {"token_imbalance", window.imbalance}};
}

// ---- CPU

std::string cpu_line(const CpuUse& use) {
  // If the process used all its cores, its own threads waited for each other, not for others'.
  if (use.waited < 0.1 || use.used > 0.95 * pool_threads()) return "";
  double load = 0;
  getloadavg(&load, 1);
  return fmt::format("cpu: got {:.0f} % of {}, load {:.1f}", 100 * use.used / pool_threads(),
                     count_of(pool_threads(), "core"), load);
}

CpuShare::Reading CpuShare::read() { return {trace::now_ns(), cpu_time()}; }

CpuUse CpuShare::use(const Reading& from, const Reading& to) {
  const auto wall = double(std::max<int64_t>(to.at_ns - from.at_ns, 1));
  return {double(to.cpu.used_ns - from.cpu.used_ns) / wall,
          double(to.cpu.waited_ns - from.cpu.waited_ns) / wall};
}

CpuUse CpuShare::use() const { return use(begin_, read()); }

std::string CpuShare::news() {
  const Reading from = std::exchange(last_, read());
  latest_ = use(from, last_);
  if (last_.at_ns < quiet_until_ns_) return "";
  const std::string found = cpu_line(latest_);
  if (!found.empty()) quiet_until_ns_ = last_.at_ns + 30'000'000'000;
  return found;
}

}  // namespace bellows
