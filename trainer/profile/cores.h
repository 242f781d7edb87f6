// CoreWatch: how busy each core is over time, with the work of all processes.
#pragma once
#include <cstdint>
#include <map>
#include <semaphore>
#include <thread>
#include <vector>
#include "trainer/log/machine_load.h"

namespace bellows {

struct CoreLoad {
  int core;
  int64_t begin_ns, end_ns;  // by trace::now_ns()
  double busy;               // share of that time, 0 to 1
};

// Reads /proc/stat every 20 ms on a thread of its own. The system counts in ticks of 10 ms, so one
// value is accurate to a few tenths, their mean is not.
class CoreWatch {
 public:
  explicit CoreWatch(std::vector<int> cores);
  ~CoreWatch();
  CoreWatch(CoreWatch&&) = delete;
  std::vector<CoreLoad> stop();  // ends the thread

 private:
  struct Seen {
    int64_t at_ns = 0;
    CpuTicks ticks = {};
  };
  void read();

  const std::vector<int> cores_;
  std::map<int, Seen> seen_;
  std::vector<CoreLoad> loads_;
  std::binary_semaphore stop_{0};
  std::thread thread_;
};

}  // namespace bellows
