#include "trainer/ab/ab_progress.h"
#include "core/base/trace.h"
#include "trainer/log/log_line.h"

namespace bellows {

AbProgress::AbProgress(const AbOptions& options)
    : measure_(options.measure),
      turns_(2 + 2 * options.blocks),
      work_(measure_ == AbMeasure::epoch
                ? 2.0 * static_cast<double>(turns_)
                : 4.0 * static_cast<double>(options.warmup + options.blocks * options.steps)),
      started_ns_(trace::now_ns()) {}

void AbProgress::begin(const std::string& title) {
  title_ = title;
  turns_done_ = 0;
  draw();
}

void AbProgress::add(const AbBlock& turn) {
  ++turns_done_;
  work_done_ += measure_ == AbMeasure::epoch ? 1 : static_cast<double>(turn.steps);
  draw();
}

std::string AbProgress::text(double elapsed_s) const {
  const std::string eta =
      work_done_ > 0 ? clock_text(elapsed_s * (work_ - work_done_) / work_done_) : "unknown";
  return cat("ab: ", title_, ", turn ", turns_done_, " of ", turns_, ", ", clock_text(elapsed_s),
             " elapsed, ETA ", eta);
}

void AbProgress::draw() {
  line_.draw(text(1e-9 * static_cast<double>(trace::now_ns() - started_ns_)));
}

}  // namespace bellows
