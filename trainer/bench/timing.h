// Wall time of calls on a device, in turns, so that what drifts falls on all alike.
#pragma once
#include <functional>
#include <string>
#include <vector>
#include "core/device/device.h"

namespace bellows {

// Seconds a call, one figure a round, ascending.
struct Timing {
  std::vector<double> rounds;
  double fastest() const { return rounds.front(); }
  double median() const { return rounds[rounds.size() / 2]; }
  double slowest() const { return rounds.back(); }
};

struct Turns {
  int rounds = 7;        // odd, so that the median is one of them
  double turn_s = 0.01;  // a turn repeats its call for at least this long
};

// The order is A B C, C B A, A B C, ... The device is waited for before and after each turn, and
// the calls that size a turn warm it up.
using Call = std::function<void()>;
std::vector<Timing> time_in_turns(const std::vector<Call>& contestants, Device device,
                                  const Turns& turns = {});

// For people, three digits: "1.34 ms"; "294 GFLOP/s".
std::string time_text(double seconds);
std::string rate_text(double per_second, const char* unit);

}  // namespace bellows
