#include "core/base/trace.h"
#include "trainer/ab/arms.h"
#include "trainer/log/log_line.h"

namespace bellows {

AbProgress::AbProgress(const ArmOptions& options, size_t arms, int64_t rounds)
    : verb_(options.verb),
      measure_(options.measure),
      slices_(int64_t(arms) * (1 + options.blocks)),
      round_work_(double(measure_ != AbMeasure::step
                             ? slices_
                             : int64_t(arms) * (options.warmup + options.blocks * options.steps))),
      rounds_(rounds),
      started_ns_(trace::now_ns()) {}

void AbProgress::begin_round() {
  ++round_;
  done_ = 0;
  draw();
}

void AbProgress::add(const AbBlock& block) {
  ++done_;
  work_done_ += measure_ != AbMeasure::step ? 1 : double(block.steps);
  draw();
}

std::string AbProgress::text(double elapsed_s) const {
  const double work = round_work_ * double(rounds_);
  const std::string eta =
      work_done_ > 0 ? clock_text(elapsed_s * (work - work_done_) / work_done_) : "unknown";
  return cat(verb_, ": process ", round_, " of ", rounds_, ", time slice ", done_, " of ", slices_,
             ", ", clock_text(elapsed_s), " elapsed, ETA ", eta);
}

void AbProgress::draw() { line_.draw(text(1e-9 * double(trace::now_ns() - started_ns_))); }

}  // namespace bellows
