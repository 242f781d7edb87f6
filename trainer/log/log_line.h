// The lines of a training log and of its progress bar, as text, and the line of a terminal that
// shows such a bar.
#pragma once
#include <string>
#include "plan/run_options.h"

namespace bellows {

// Values of a log line: means over the iterations since the previous one.
struct LogPoint {
  int64_t epoch = 1, iter = 0, iters = 0;  // from 1; iters: per epoch
  int64_t step = 0;                        // updates since the start of the run
  double loss = 0, lr = 0;                 // loss: mean of the finite ones
  double batch_cost = 0, reader_cost = 0;  // seconds per iteration, of which waiting for data
  double ips = 0;                          // samples per second
  int64_t nonfinite_losses = 0;            // left out of the mean
  int64_t skipped_updates = 0;
  std::string unit = "samples";
  double eta_s = 0;  // estimated seconds of all remaining updates, without evaluations and saves
};

// `paddle` is exactly the line format of Paddle; a golden test checks it. Text formats append the
// counts of non-finite losses and of skipped updates that are not 0.
std::string log_line(const LogPoint& point, LogFormat format);
std::string clock_text(double seconds);  // "00:03:52"
// Returns a progress bar in `width` columns, in tqdm's format. `elapsed_s`: since the start of the
// epoch. An unknown loss, and the rate before the first update, are "?".
//   Train ep 3/90:  42%|####4     | 210/500 [00:12<00:17, 16.9it/s, loss=2.31, ips=4.3k]
std::string bar_line(const LogPoint& point, int64_t epochs, double elapsed_s, int width);

// A progress line at the bottom of a terminal, rewritten in place. Draws nothing if stdout is not a
// terminal that can move its cursor.
class LiveLine {
 public:
  // Draws only if `wanted` and on_terminal() (core/base/output.h).
  explicit LiveLine(bool wanted = true);
  ~LiveLine() { clear(); }
  LiveLine(LiveLine&&) = delete;

  bool on() const { return on_; }
  bool due() const;                    // true from 0.1 s after the last draw()
  int width() const;                   // columns of the terminal
  void draw(const std::string& text);  // ASCII; cut to the width
  void clear();                        // call before printing anything else

 private:
  bool on_;
  bool drawn_ = false;
  int64_t drawn_ns_ = 0;
};

}  // namespace bellows
