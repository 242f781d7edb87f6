// What a run tells while it runs: lines or a progress bar on stdout, metrics.jsonl in full
// precision (the source of truth), TensorBoard's events.
#pragma once
#include "core/file.h"
#include "trainer/evaluate.h"
#include "trainer/log_line.h"
#include "trainer/progress_bar.h"
#include "trainer/tensorboard.h"
#include "trainer/training_state.h"

namespace bellows {

enum class Voice { silent, lines };  // on stdout

class Log {
 public:
  // An empty folder: nothing is written to files.
  Log(const Plan& plan, const Path& folder, Voice voice);

  // `more`: for metrics.jsonl and TensorBoard.
  void window(const LogPoint& point, const Scalars& more);
  bool progress_due() const { return bar_.due(); }  // at most ten times a second
  void progress(const LogPoint& point);
  void evaluation(const Position& at, const Metrics& metrics);
  void totals(const Position& at, const Scalars& values);  // of the run, at its end
  void line(const std::string& text);                      // anything else

 private:
  void record(const char* split, const Position& at, const Scalars& values);

  LogOptions options_;
  int64_t epochs_;
  Voice voice_;
  ProgressBar bar_;
  int64_t epoch_ = 0, epoch_begin_ns_ = 0;  // that the bar shows
  std::unique_ptr<LineWriter> metrics_;
  std::unique_ptr<TensorBoard> tensorboard_;
};

}  // namespace bellows
