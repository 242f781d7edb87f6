// The lines of a training log, as text.
#pragma once
#include <string>
#include "plan/run_options.h"

namespace bellows {

// What a log line says: means over the iterations since the last one.
struct LogPoint {
  int64_t epoch = 1, iter = 0, iters = 0;  // counted from 1; iters: in an epoch
  int64_t step = 0;                        // updates since the start of the run
  double loss = 0, lr = 0;
  double batch_cost = 0, reader_cost = 0;  // seconds an iteration; of that, waiting for data
  double ips = 0;                          // samples a second
  std::string unit = "samples";
  double eta_s = 0;  // to the end of the run
};

// `paddle` is the exact line that Paddle's users know; a golden test holds it.
std::string log_line(const LogPoint& point, LogFormat format);
std::string clock_text(double seconds);  // "00:03:52"

}  // namespace bellows
