// Meters of a run and of the machine: costs per log window, the share of each phase, the CPU time
// that the run received, and how busy CPUs, memory and disks are, as the kernel counts them in
// /proc.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>
#include "core/device/threads.h"

namespace bellows {

enum class Phase { load, step, eval, save, other };
inline constexpr int kPhases = 5;

// Each call of lap() ends one phase. The clock is an argument so that tests can control it.
class Meter {
 public:
  using Clock = int64_t (*)();  // ns, monotonic
  explicit Meter(Clock clock);

  // Adds the time since the last lap to `phase`.
  void lap(Phase phase);
  void count(int64_t samples);  // ends an iteration

  // Costs of the iterations since the last take(), without evaluation and saving: batch_cost and
  // reader_cost in seconds per iteration, ips in samples per second.
  struct Window {
    double batch_cost = 0, reader_cost = 0, ips = 0;
  };
  Window window() const;
  Window take();  // as window(); then begins the next window

  double seconds(Phase phase) const { return total_[static_cast<int>(phase)] * 1e-9; }
  double total_seconds() const;  // sum over all phases
  double ips() const;            // over the whole run

 private:
  Clock clock_;
  int64_t last_;
  std::array<int64_t, kPhases> total_ = {}, taken_ = {};  // taken_: total_ at the last take()
  int64_t iterations_ = 0, window_samples_ = 0, samples_ = 0;
};

// ---- CPU

// In cores: CPU time of the process divided by wall time, and time in which threads of the pool
// were ready but had no core, added up and divided by wall time.
struct CpuUse {
  double used = 0, waited = 0;
};

// For example "cpu: got 35 % of 2 cores, load 5.1": cores in use, divided by the threads of the
// pool. Empty if threads waited for a core for less than a tenth of the time, or the process had
// all its cores.
std::string cpu_line(const CpuUse& use);

class CpuShare {
 public:
  CpuUse use() const;  // since construction
  // Returns cpu_line() for the time since the last call; "" for 30 s after a non-empty result.
  std::string news();
  const CpuUse& latest() const { return latest_; }  // use between the last two calls of news()

 private:
  struct Reading {
    int64_t at_ns;
    CpuTime cpu;
  };
  static Reading read();
  static CpuUse use(const Reading& from, const Reading& to);

  Reading begin_ = read(), last_ = begin_;
  int64_t quiet_until_ns_ = 0;
  CpuUse latest_;
};

double peak_resident_bytes();  // of this process, in host memory

// ---- the machine

// CPU time since boot, in ticks. `stolen`: the hypervisor gave it to other machines.
struct CpuTicks {
  int64_t all = 0, used = 0, stolen = 0;
};
std::map<int, CpuTicks> ticks_by_core();
// Returns the share of the time between two readings in which a core was busy or stolen, 0 to 1.
double busy_share(const CpuTicks& begin, const CpuTicks& end);

// Shares of the time of a measurement, 0 to 1.
struct BusyMachine {
  double others = 0;  // share of all cores used by other processes
  double stolen = 0;  // share of all cores that the hypervisor gave to other machines
  double waited = 0;  // share of the pools' threads that were ready but had no core

  // Names the shares that make the clock doubtful: "other processes used 48 % of the cores". Empty
  // on a quiet machine.
  std::vector<std::string> reasons() const;
};

class MachineClock {
 public:
  // Returns `others` and `stolen` since construction. Children count once they have ended.
  BusyMachine since_begin() const;

 private:
  static CpuTicks ticks();    // of all cores
  static double own_ticks();  // of this process and its children

  CpuTicks begin_ = ticks();
  double own_begin_ = own_ticks();
};

struct MachineLoad {
  std::vector<double> cores;    // busy_share of each core
  double memory_bytes = 0;      // memory in use by all processes
  double disk_bytes_per_s = 0;  // bytes read from all disks; the page cache does not count
  double cpu() const;           // mean over the cores
};

class LoadMeter {
 public:
  LoadMeter();
  // Returns the load since the last result, or nothing if that is less than a second ago.
  std::optional<MachineLoad> next();

 private:
  struct Reading {
    int64_t at_ns = 0;
    std::map<int, CpuTicks> cores = {};
    double disk_bytes = 0;
  };
  static Reading read();

  Reading last_;
};

}  // namespace bellows
