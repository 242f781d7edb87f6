// A bar on a terminal, in tqdm's form:
//   Train ep 3/90:  42%|####4     | 210/500 [00:12<00:17, 16.9it/s, loss=2.31, ips=4.3k]
#pragma once
#include <string>
#include "trainer/log_line.h"

namespace bellows {

std::string bar_line(const LogPoint& point, int64_t epochs, double elapsed_s, int width);

class ProgressBar {
 public:
  // Draws only if stdout is a terminal that moves its cursor and NO_COLOR is not set.
  explicit ProgressBar(bool wanted);
  bool on() const { return on_; }
  bool due() const;  // 0.1 s after the last drawing
  void draw(const LogPoint& point, int64_t epochs, double elapsed_s);
  void clear();  // before anything else is printed

 private:
  bool on_;
  int64_t drawn_ns_ = 0;
};

}  // namespace bellows
