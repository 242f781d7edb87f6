#include "trainer/log/meter.h"
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/times.h>
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>
#include "core/base/statistics.h"
#include "core/base/trace.h"
#include "core/base/words.h"
#include "core/device/topology.h"

namespace bellows {

Meter::Meter(Clock clock) : clock_(clock), last_(clock()) {}

void Meter::lap(Phase phase) {
  const int64_t now = clock_();
  total_[static_cast<int>(phase)] += now - last_;
  last_ = now;
}

void Meter::count(int64_t samples) {
  ++iterations_;
  window_samples_ += samples;
  samples_ += samples;
}

// Returns 0 for an empty window or a clock that has not advanced, so a log never contains Inf.
static double ratio(double a, double b) { return b > 0 ? a / b : 0; }

Meter::Window Meter::window() const {
  const auto since = [&](Phase phase) {
    const int i = static_cast<int>(phase);
    return (total_[i] - taken_[i]) * 1e-9;
  };
  const double load = since(Phase::load), time = load + since(Phase::step);
  const auto n = double(iterations_);
  return {ratio(time, n), ratio(load, n), ratio(double(window_samples_), time)};
}

Meter::Window Meter::take() {
  const Window ended = window();
  taken_ = total_;
  iterations_ = window_samples_ = 0;
  return ended;
}

double Meter::total_seconds() const {
  int64_t sum = 0;
  for (const int64_t ns : total_) sum += ns;
  return sum * 1e-9;
}

double Meter::ips() const {
  return ratio(double(samples_), seconds(Phase::load) + seconds(Phase::step));
}

// ---- CPU

std::string cpu_line(const CpuUse& use) {
  // If the process used all its cores, its threads waited for each other, not for other processes.
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

double peak_resident_bytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * double(usage.ru_maxrss);
}

// ---- CPUs of the machine

// `line` of /proc/stat: "cpu3 user nice ..."
static CpuTicks parse_ticks(const std::string& line) {
  std::istringstream words(line);
  std::string cpu;
  int64_t user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  words >> cpu >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal;
  const int64_t used = user + nice + system + irq + softirq;
  return {used + idle + iowait + steal, used, steal};
}

std::map<int, CpuTicks> ticks_by_core() {
  std::map<int, CpuTicks> cores;
  std::ifstream stat("/proc/stat");
  for (std::string line; std::getline(stat, line) && line.starts_with("cpu");)
    if (line.size() > 3 && line[3] != ' ') cores[std::atoi(line.c_str() + 3)] = parse_ticks(line);
  return cores;
}

double busy_share(const CpuTicks& begin, const CpuTicks& end) {
  const auto all = static_cast<double>(std::max<int64_t>(end.all - begin.all, 1));
  const auto busy = static_cast<double>(end.used - begin.used + end.stolen - begin.stolen);
  return std::clamp(busy / all, 0.0, 1.0);
}

// ---- other work while a run is measured

// A tenth, as in the line `cpu:` of a run. On a healthy machine the hypervisor takes less than 5 %.
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

CpuTicks MachineClock::ticks() { return parse_ticks(first_line("/proc/stat")); }

double MachineClock::own_ticks() {
  tms used = {};
  times(&used);
  return double(used.tms_utime + used.tms_stime + used.tms_cutime + used.tms_cstime);
}

BusyMachine MachineClock::since_begin() const {
  const CpuTicks end = ticks();
  const auto all = double(std::max<int64_t>(end.all - begin_.all, 1));
  const double others = double(end.used - begin_.used) - (own_ticks() - own_begin_);
  return {.others = std::max(0.0, others) / all,
          .stolen = double(end.stolen - begin_.stolen) / all};
}

double MachineLoad::cpu() const { return mean(cores); }

static double bytes_in(const char* path, const char* name) {
  return 1024 * std::atof(value_in(path, name).c_str());
}

LoadMeter::Reading LoadMeter::read() {
  return {trace::now_ns(), ticks_by_core(), bytes_in("/proc/vmstat", "pgpgin")};
}

LoadMeter::LoadMeter() : last_(read()) {}

std::optional<MachineLoad> LoadMeter::next() {
  constexpr int64_t kSecond = 1'000'000'000;
  if (trace::now_ns() - last_.at_ns < kSecond) return {};
  const Reading from = std::exchange(last_, read());
  MachineLoad load;
  for (const auto& [core, ticks] : last_.cores)
    if (const auto before = from.cores.find(core); before != from.cores.end())
      load.cores.push_back(busy_share(before->second, ticks));
  load.memory_bytes =
      bytes_in("/proc/meminfo", "MemTotal") - bytes_in("/proc/meminfo", "MemAvailable");
  load.disk_bytes_per_s =
      (last_.disk_bytes - from.disk_bytes) / (1e-9 * double(last_.at_ns - from.at_ns));
  return load;
}

}  // namespace bellows
