// Output of a run: lines or a progress bar on stdout, metrics.jsonl in full precision (the source
// of truth), and TensorBoard events.
#pragma once
#include <memory>
#include "core/base/file.h"
#include "trainer/log/log_line.h"
#include "trainer/log/tensorboard.h"
#include "trainer/session/evaluate.h"
#include "trainer/state/training_state.h"

namespace bellows {

enum class LogOutput { silent, lines };  // output on stdout

// Values of all ranks or of all CPUs, by name; lists in metrics.jsonl.
using ScalarLists = std::vector<std::pair<std::string, std::vector<double>>>;

// Prints a line on stdout; as an object {"message": text} with LogFormat::json, so that stdout is
// valid JSON lines.
void print_line(LogFormat format, const std::string& text);

// Returns a PNG file with the first 64 images of x, (B, C, H, W), as a square grid with a border of
// a pixel. The smallest value of x is black, the largest white; one channel is shown as gray; of
// several channels, the first three are red, green and blue. Waits for the device.
std::vector<uint8_t> batch_picture(const Tensor& x);

class Log {
 public:
  // Writes no files if `folder` is empty. `from`: position at which the run resumes; later rows in
  // metrics.jsonl are dropped, because the run repeats them.
  Log(const Plan& plan, const Path& folder, LogOutput voice, const Position& from = {});

  // Records the means of a log window and prints them unless a bar is drawn. `more`: values for
  // metrics.jsonl and TensorBoard only. `lists`: for metrics.jsonl only.
  void window(const LogPoint& point, const Scalars& more, const ScalarLists& lists = {});
  bool progress_due() const { return bar_.due(); }  // true at most ten times a second
  void progress(const LogPoint& point);
  void epoch(const Position& at);  // mean loss of the epoch, if a bar is drawn
  void evaluation(const Position& at, const Metrics& metrics);
  void totals(const Position& at, const Scalars& values);  // writes the totals; call it at the end
  void line(const std::string& text);                      // any other message
  // Writes pictures/step_00000100.png, if log.pictures_every divides `step`. Counters: log.pictures
  // and log.picture_ns.
  void batch(const Tensor& x, int64_t step);

 private:
  // Writes a row to metrics.jsonl and TensorBoard, and returns it as JSON.
  std::string record(const char* split, const Position& at, const Scalars& values,
                     const ScalarLists& lists = {});

  LogOptions options_;
  Path folder_;
  int64_t epochs_;
  LogOutput voice_;
  LiveLine bar_;
  int64_t epoch_ = 0, epoch_begin_ns_ = 0;  // epoch in the bar and its start
  std::unique_ptr<LineWriter> metrics_;
  std::unique_ptr<TensorBoard> tensorboard_;
};

}  // namespace bellows
