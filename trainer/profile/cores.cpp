#include "trainer/profile/cores.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include "core/base/trace.h"
#include "core/device/threads.h"

namespace bellows {

CoreWatch::CoreWatch(std::vector<int> cores) : cores_(std::move(cores)) {
  read();
  thread_ = std::thread([this] {
    name_thread("core watch");
    while (!stop_.try_acquire_for(std::chrono::milliseconds(20))) read();
  });
}

CoreWatch::~CoreWatch() {
  if (thread_.joinable()) stop();
}

std::vector<CoreLoad> CoreWatch::stop() {
  stop_.release();
  thread_.join();
  read();
  return std::exchange(loads_, {});
}

// A line for each core: "cpu3 user nice system idle iowait irq softirq steal ...".
void CoreWatch::read() {
  const int64_t now = trace::now_ns();
  std::ifstream stat("/proc/stat");
  for (std::string line; std::getline(stat, line) && line.starts_with("cpu");) {
    int core = 0;
    long long t[8] = {};
    if (std::sscanf(line.c_str(), "cpu%d %lld %lld %lld %lld %lld %lld %lld %lld", &core, &t[0],
                    &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) != 9 ||
        !std::ranges::count(cores_, core))
      continue;
    Ticks ticks{now, 0, 0};
    for (const long long part : t) ticks.all += part;
    ticks.busy = ticks.all - t[3] - t[4];
    Ticks& before = seen_[core];
    const int64_t all = ticks.all - before.all;
    if (all <= 0) continue;  // no tick since then
    if (before.at_ns)
      loads_.push_back({core, before.at_ns, now,
                        std::clamp(double(ticks.busy - before.busy) / double(all), 0., 1.)});
    before = ticks;
  }
}

}  // namespace bellows
