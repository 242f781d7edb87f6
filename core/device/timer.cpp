#include "core/device/timer.h"
#include <algorithm>
#include <ctime>
#include "core/base/check.h"
#include "core/base/statistics.h"
#include "core/base/trace.h"

namespace bellows {

int64_t time_ns(Clock clock) {
  if (clock == Clock::wall) return trace::now_ns();
  timespec t = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * 1'000'000'000ll + t.tv_nsec;
}

double seconds_since(int64_t begin_ns, Clock clock) {
  return 1e-9 * double(time_ns(clock) - begin_ns);
}

// ---- calls

// Returns the seconds that `count` calls take, including the device's work.
static double time_calls(const std::function<void()>& call, int64_t count, Stream stream,
                         Clock clock) {
  synchronize(stream);
  const int64_t begin = time_ns(clock);
  for (int64_t i = 0; i < count; ++i) call();
  synchronize(stream);
  return seconds_since(begin, clock);
}

std::vector<Timing> time_interleaved(const std::vector<std::function<void()>>& calls, Device device,
                                     const Interleaving& how) {
  const Stream stream = current_stream(device);
  std::vector<int64_t> counts(calls.size(), 1);  // calls per time slice
  for (size_t i = 0; i < calls.size(); ++i)
    while (time_calls(calls[i], counts[i], stream, how.clock) < how.slice_s) counts[i] *= 2;
  std::vector<Timing> timings(calls.size());
  for (int round = 0; round < how.rounds; ++round) {
    for (size_t place = 0; place < calls.size(); ++place) {
      const size_t i = round % 2 == 0 ? place : calls.size() - 1 - place;
      timings[i].rounds.push_back(time_calls(calls[i], counts[i], stream, how.clock) /
                                  double(counts[i]));
    }
  }
  for (Timing& timing : timings) std::ranges::sort(timing.rounds);
  return timings;
}

double Timing::median() const { return bellows::median(rounds); }

// ---- moments of a stream

double Moment::ms_since(const Moment& begin) const {
  CHECK(begin.device_ == device_, "moments of ", begin.device_, " and ", device_);
  return api_of(device_).ms(begin.native_, native_);
}

}  // namespace bellows
