// Where the time of a run goes: the costs of a log window, and the share of each phase.
#pragma once
#include <array>
#include <cstdint>

namespace bellows {

enum class Phase { load, step, eval, save, other };
inline constexpr int kPhases = 5;

// Between two calls of lap() lies one phase. The clock is an argument, so that tests own the time.
class Meter {
 public:
  using Clock = int64_t (*)();  // ns, monotonic
  explicit Meter(Clock clock);

  // Since the last lap, the time went into that phase.
  void lap(Phase phase);
  void count(int64_t samples);  // one iteration is done

  // Of the iterations since the last take(): evaluation and saving are no part of their cost.
  struct Window {
    int64_t iterations = 0, samples = 0;
    double batch_cost = 0, reader_cost = 0, ips = 0;
  };
  Window take();

  double seconds(Phase phase) const { return total_[static_cast<int>(phase)] * 1e-9; }
  double total_seconds() const;  // of all phases
  double ips() const;  // over the whole run

 private:
  Clock clock_;
  int64_t last_;
  std::array<int64_t, kPhases> total_ = {}, taken_ = {};  // taken_: total_ at the last take()
  int64_t iterations_ = 0, window_samples_ = 0, samples_ = 0;
};

}  // namespace bellows
