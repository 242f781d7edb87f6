#include "trainer/session/tuning_window.h"
#include <fmt/format.h>

namespace bellows {

TuningWindow::TuningWindow(const TrainOptions& train, const KernelOptions& kernels)
    : kernels_(kernels), first_(train.tuning_window.at(0)), last_(train.tuning_window.at(1)) {}

KernelOptions TuningWindow::now() const {
  KernelOptions now = kernels_;
  if (on() && updates_ + 1 < first_) now.autotune = Autotune::heuristic;
  if (on() && updates_ + 1 > last_) now.autotune = Autotune::found;
  return now;
}

void TuningWindow::reopen() {
  updates_ = 0;
  begin_ = trace::counters();
  reported_ = false;
}

static double hit_rate(const trace::Counters& moved) {
  const int64_t hits = trace::value_of(moved, "autotune.hits");
  const int64_t others =
      trace::value_of(moved, "autotune.misses") + trace::value_of(moved, "autotune.searches");
  return double(hits) / double(std::max<int64_t>(1, hits + others));
}

std::string TuningWindow::report() {
  if (!on() || updates_ < last_ || std::exchange(reported_, true)) return "";
  const trace::Counters moved = trace::moved_since(begin_);
  return fmt::format(
      "autotune: {} searches in {:.1f} s, {} repeated problems, {} found on disk, hit rate {:.1f} "
      "%",
      trace::value_of(moved, "autotune.searches"),
      double(trace::value_of(moved, "autotune.search_us")) * 1e-6,
      trace::value_of(moved, "autotune.repeated"), trace::value_of(moved, "autotune.kept"),
      100 * hit_rate(moved));
}

Scalars TuningWindow::take() {
  if (kernels_.autotune == Autotune::heuristic) return {};
  const trace::Counters moved = trace::moved_since(std::exchange(taken_, trace::counters()));
  return {{"autotune_searches", double(trace::value_of(moved, "autotune.searches"))},
          {"autotune_hit_rate", hit_rate(moved)}};
}

}  // namespace bellows
