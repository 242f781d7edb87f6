// Measures how a run spends its time: costs per log window, and the share of each phase.
#pragma once
#include <array>
#include <cstdint>

namespace bellows {

// dry: before the clock of the run starts.
enum class Phase { load, step, eval, save, other, dry };
inline constexpr int kPhases = 6;

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
  Window take();

  double seconds(Phase phase) const { return total_[static_cast<int>(phase)] * 1e-9; }
  double total_seconds() const;  // sum over all phases except dry
  double ips() const;            // over the whole run

 private:
  Clock clock_;
  int64_t last_;
  std::array<int64_t, kPhases> total_ = {}, taken_ = {};  // taken_: total_ at the last take()
  int64_t iterations_ = 0, window_samples_ = 0, samples_ = 0;
};

}  // namespace bellows
