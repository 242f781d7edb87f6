// A progress bar on a terminal, in tqdm's format:
//   Train ep 3/90:  42%|####4     | 210/500 [00:12<00:17, 16.9it/s, loss=2.31, ips=4.3k]
#pragma once
#include <string>
#include "trainer/log/live_line.h"
#include "trainer/log/log_line.h"

namespace bellows {

// Returns the bar in `width` columns. `elapsed_s`: since the start of the epoch.
std::string bar_line(const LogPoint& point, int64_t epochs, double elapsed_s, int width);

class ProgressBar {
 public:
  explicit ProgressBar(bool wanted) : line_(wanted) {}
  bool on() const { return line_.on(); }
  bool due() const { return line_.due(); }
  void draw(const LogPoint& point, int64_t epochs, double elapsed_s);
  void clear() { line_.clear(); }  // call before printing anything else

 private:
  LiveLine line_;
};

}  // namespace bellows
