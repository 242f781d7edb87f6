// Clocks, and the times of calls that run alternately. core/base/statistics.h compares such times.
#pragma once
#include <functional>
#include <vector>
#include "core/device/device.h"

namespace bellows {

enum class Clock { wall, cpu };  // cpu: CPU time of all threads of this process

int64_t time_ns(Clock clock);  // wall: trace::now_ns()
double seconds_since(int64_t begin_ns, Clock clock = Clock::wall);

// Seconds per call, one value per round, ascending.
struct Timing {
  std::vector<double> rounds;
  double fastest() const { return rounds.front(); }
  double median() const;
  double slowest() const { return rounds.back(); }
};

struct Interleaving {
  int rounds = 7;
  double slice_s = 0.01;  // a time slice repeats its call for at least this long; 0: one call
  Clock clock = Clock::wall;
};

// Times the calls in the order A B C, C B A, A B C, ..., so that drift of the machine affects all
// alike. The device is synchronized before and after each time slice. The calls that determine the
// length of a slice also warm up.
std::vector<Timing> time_interleaved(const std::vector<std::function<void()>>& calls, Device device,
                                     const Interleaving& how = {});

// Time at which a stream has done all work queued before this, by the device's own clock. On the
// CPU, the time of the call. An Event is cheaper, but only orders work.
class Moment : Event {
 public:
  explicit Moment(Stream stream) : Event(stream.device, true) { record(stream); }
  // Milliseconds since `begin`, of the same device. Both must have passed: synchronize() first.
  double ms_since(const Moment& begin) const;
};

}  // namespace bellows
