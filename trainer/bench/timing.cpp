#include "trainer/bench/timing.h"
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include "core/base/trace.h"

namespace bellows {

// Returns the wall time of `calls` calls, including the device's work.
static double seconds_of(const Call& call, int64_t calls, Stream stream) {
  synchronize(stream);
  const int64_t begin = trace::now_ns();
  for (int64_t i = 0; i < calls; ++i) call();
  synchronize(stream);
  return 1e-9 * double(trace::now_ns() - begin);
}

static int64_t calls_for(const Call& call, double turn_s, Stream stream) {
  int64_t calls = 1;
  while (seconds_of(call, calls, stream) < turn_s) calls *= 2;
  return calls;
}

std::vector<Timing> time_in_turns(const std::vector<Call>& contestants, Device device,
                                  const Turns& turns) {
  const Stream stream = current_stream(device);
  std::vector<int64_t> calls;
  for (const Call& call : contestants) calls.push_back(calls_for(call, turns.turn_s, stream));
  std::vector<Timing> timings(contestants.size());
  for (int round = 0; round < turns.rounds; ++round) {
    for (size_t turn = 0; turn < contestants.size(); ++turn) {
      const size_t i = round % 2 == 0 ? turn : contestants.size() - 1 - turn;
      timings[i].rounds.push_back(seconds_of(contestants[i], calls[i], stream) / double(calls[i]));
    }
  }
  for (Timing& timing : timings) std::ranges::sort(timing.rounds);
  return timings;
}

// ---- text

static std::string three_digits(double value) {
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}", value, decimals);
}

std::string time_text(double seconds) {
  const double ns = seconds * 1e9;
  if (ns < 1e3) return three_digits(ns) + " ns";
  if (ns < 1e6) return three_digits(ns / 1e3) + " us";
  if (ns < 1e9) return three_digits(ns / 1e6) + " ms";
  return three_digits(seconds) + " s";
}

std::string rate_text(double per_second, const char* unit) {
  const bool tera = per_second >= 1e12;
  return fmt::format("{} {}{}", three_digits(per_second / (tera ? 1e12 : 1e9)), tera ? "T" : "G",
                     unit);
}

}  // namespace bellows
