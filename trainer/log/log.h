// What a run tells while it runs: lines or a progress bar on stdout, metrics.jsonl in full
// precision (the source of truth), TensorBoard's events.
#pragma once
#include "core/base/file.h"
#include "trainer/log/log_line.h"
#include "trainer/log/progress_bar.h"
#include "trainer/log/tensorboard.h"
#include "trainer/session/evaluate.h"
#include "trainer/state/training_state.h"

namespace bellows {

enum class Voice { silent, lines };  // on stdout

// Lines on stdout; with log.format json objects, {"message": text}, so that every line there is
// one.
class Speaker {
 public:
  explicit Speaker(LogFormat format) : json_(format == LogFormat::json) {}
  void line(const std::string& text) const;
  void all(const std::vector<std::string>& lines) const;

 private:
  bool json_;
};

// Removes the rows that a run which goes on at `from` will write again, and the totals of its
// earlier end. Returns their number. Throws Error, exit 8.
int64_t drop_rows_after(const Position& from, const Path& metrics_jsonl);

class Log {
 public:
  // An empty folder: nothing is written to files. `from`: where the run goes on; what metrics.jsonl
  // holds beyond it is dropped, because the run repeats it.
  Log(const Plan& plan, const Path& folder, Voice voice, const Position& from = {});

  // `more`: for metrics.jsonl and TensorBoard.
  void window(const LogPoint& point, const Scalars& more);
  bool progress_due() const { return bar_.due(); }  // at most ten times a second
  void progress(const LogPoint& point);
  void epoch(const Position& at);  // on a terminal, the epoch's training loss: the bar leaves none
  void evaluation(const Position& at, const Metrics& metrics);
  void totals(const Position& at, const Scalars& values);  // of the run, at its end
  void line(const std::string& text);                      // anything else

 private:
  // Returns the row.
  std::string record(const char* split, const Position& at, const Scalars& values);

  LogOptions options_;
  int64_t epochs_;
  Voice voice_;
  ProgressBar bar_;
  int64_t epoch_ = 0, epoch_begin_ns_ = 0;  // that the bar shows
  std::unique_ptr<LineWriter> metrics_;
  std::unique_ptr<TensorBoard> tensorboard_;
};

}  // namespace bellows
