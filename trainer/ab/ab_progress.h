// Progress of `trainer ab` on a terminal, with the estimated time left:
//   ab: placebo, turn 12 of 82, 00:00:09 elapsed, ETA 00:00:51
#pragma once
#include "trainer/ab/ab.h"
#include "trainer/log/live_line.h"

namespace bellows {

class AbProgress {
 public:
  explicit AbProgress(const AbOptions& options);
  void begin(const std::string& title);  // starts one of the two comparisons
  void add(const AbBlock& turn);         // counts a finished turn
  void clear() { line_.clear(); }
  std::string text(double elapsed_s) const;

 private:
  void draw();

  LiveLine line_;
  AbMeasure measure_;
  int64_t turns_;  // per comparison, warm-ups included
  double work_;    // of both comparisons: steps, or turns with AbMeasure::epoch
  int64_t turns_done_ = 0;
  double work_done_ = 0;
  int64_t started_ns_;
  std::string title_;
};

}  // namespace bellows
