#include "trainer/run/cpu_share.h"
#include <fmt/format.h>
#include <algorithm>
#include <utility>
#include "core/base/trace.h"
#include "core/base/words.h"

namespace bellows {

std::string cpu_line(const CpuUse& use) {
  // If the process used all its cores, its own threads waited for each other, not for others'.
  if (use.waited < 0.1 || use.used > 0.95 * pool_threads()) return "";
  double load = 0;
  getloadavg(&load, 1);
  return fmt::format("cpu: got {:.0f} % of {}, load {:.1f}", 100 * use.used / pool_threads(),
                     count_of(pool_threads(), "core"), load);
}

CpuShare::Reading CpuShare::read() { return {trace::now_ns(), cpu_time()}; }

CpuUse CpuShare::use(const Reading& from, const Reading& to) {
  const auto wall = double(std::max<int64_t>(to.at_ns - from.at_ns, 1));
  return {double(to.cpu.used_ns - from.cpu.used_ns) / wall,
          double(to.cpu.waited_ns - from.cpu.waited_ns) / wall};
}

CpuUse CpuShare::use() const { return use(begin_, read()); }

std::string CpuShare::news() {
  const Reading from = std::exchange(last_, read());
  latest_ = use(from, last_);
  if (last_.at_ns < quiet_until_ns_) return "";
  const std::string found = cpu_line(latest_);
  if (!found.empty()) quiet_until_ns_ = last_.at_ns + 30'000'000'000;
  return found;
}

}  // namespace bellows
