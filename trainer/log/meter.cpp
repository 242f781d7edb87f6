#include "trainer/log/meter.h"

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

Meter::Window Meter::take() {
  const auto since = [&](Phase phase) {
    const int i = static_cast<int>(phase);
    return (total_[i] - taken_[i]) * 1e-9;
  };
  const double load = since(Phase::load), time = load + since(Phase::step);
  const auto n = double(iterations_);
  const Window window = {ratio(time, n), ratio(load, n), ratio(double(window_samples_), time)};
  taken_ = total_;
  iterations_ = window_samples_ = 0;
  return window;
}

double Meter::total_seconds() const {
  int64_t sum = 0;
  for (const int64_t ns : total_) sum += ns;
  return sum * 1e-9 - seconds(Phase::dry);
}

double Meter::ips() const {
  return ratio(double(samples_), seconds(Phase::load) + seconds(Phase::step));
}

}  // namespace bellows
