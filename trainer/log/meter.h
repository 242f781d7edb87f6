// Measures how a run spends its time: costs per log window, the share of each phase, and the CPU
// time that it received when other work on the machine took part of it.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include "core/base/statistics.h"
#include "core/device/cpu_time.h"
#include "data/loader/batch.h"

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
  Window take();  // the same, and begins the next window

  double seconds(Phase phase) const { return total_[static_cast<int>(phase)] * 1e-9; }
  double total_seconds() const;  // sum over all phases
  double ips() const;            // over the whole run

 private:
  Clock clock_;
  int64_t last_;
  std::array<int64_t, kPhases> total_ = {}, taken_ = {};  // taken_: total_ at the last take()
  int64_t iterations_ = 0, window_samples_ = 0, samples_ = 0;
};

// ---- samples of varying length

// Padding, and how unevenly the samples are shared among the ranks.
class PaddingGauge {
 public:
  void add(const BatchCounts& counts);
  // Returns padding_share and token_imbalance (the worst round) since the last call; nothing if all
  // samples have one length.
  Scalars take();

 private:
  BatchCounts window_;
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
  // cpu_line() for the time since the last call. Empty for 30 s after a non-empty result.
  std::string news();
  const CpuUse& latest() const { return latest_; }  // between its last two calls

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

}  // namespace bellows
