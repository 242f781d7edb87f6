#include "trainer/ab/busy.h"
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>

namespace bellows {

// Tenths, as in the line `cpu:` of a run. The hypervisor takes a few percent of a healthy machine.
constexpr double kBusy = 0.1, kStolen = 0.05;

std::vector<std::string> BusyMachine::reasons() const {
  std::vector<std::string> found;
  if (others > kBusy)
    found.push_back(fmt::format("other processes used {:.0f} % of the cores", 100 * others));
  if (stolen > kStolen)
    found.push_back(fmt::format("the hypervisor took {:.0f} % of the cores", 100 * stolen));
  // A run's own teams of threads, libgomp's and ours, also keep each other waiting.
  if (waited > kBusy && others + stolen > kStolen)
    found.push_back(
        fmt::format("threads waited for a core for {:.0f} % of the time", 100 * waited));
  return found;
}

BusyMachine shares(const CpuTicks& begin, const CpuTicks& end, double own) {
  const auto all = double(std::max<int64_t>(end.all - begin.all, 1));
  const auto used = double(end.used - begin.used);
  return {.others = std::max(0.0, used - own) / all,
          .stolen = double(end.stolen - begin.stolen) / all};
}

double MachineClock::own_ticks() {
  double seconds = 0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage = {};
    getrusage(who, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime})
      seconds += double(time.tv_sec) + 1e-6 * double(time.tv_usec);
  }
  return seconds * double(sysconf(_SC_CLK_TCK));
}

}  // namespace bellows
