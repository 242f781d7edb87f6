// Wall time of calls on a device. Calls are timed alternately, so that drift affects all alike.
#pragma once
#include <functional>
#include <string>
#include <vector>
#include "core/device/device.h"

namespace bellows {

// Seconds per call, one value per round, ascending.
struct Timing {
  std::vector<double> rounds;
  double fastest() const { return rounds.front(); }
  double median() const { return rounds[rounds.size() / 2]; }
  double slowest() const { return rounds.back(); }
};

struct Turns {
  int rounds = 7;        // odd, so that the median is one of the values
  double turn_s = 0.01;  // a turn repeats its call for at least this long, in seconds
};

// Times the calls in the order A B C, C B A, A B C, ... The device is synchronized before and after
// each turn. The calls that determine the length of a turn also warm up.
using Call = std::function<void()>;
std::vector<Timing> time_in_turns(const std::vector<Call>& contestants, Device device,
                                  const Turns& turns = {});

// Text with three significant digits: "1.34 ms"; "294 GFLOP/s".
std::string time_text(double seconds);
std::string rate_text(double per_second, const char* unit);

}  // namespace bellows
