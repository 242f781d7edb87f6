#include "trainer/profile/cores.h"
#include <algorithm>
#include <chrono>
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

void CoreWatch::read() {
  const int64_t now = trace::now_ns();
  for (const auto& [core, ticks] : ticks_by_core()) {
    if (!std::ranges::count(cores_, core)) continue;
    Seen& before = seen_[core];
    if (ticks.all == before.ticks.all) continue;  // no tick since then
    if (before.at_ns) loads_.push_back({core, before.at_ns, now, busy_share(before.ticks, ticks)});
    before = {now, ticks};
  }
}

}  // namespace bellows
