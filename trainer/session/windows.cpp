#include "trainer/session/windows.h"
#include <fmt/format.h>
#include "core/base/check.h"

namespace bellows {

TuningWindow::TuningWindow(const TrainOptions& train, const KernelOptions& kernels)
    : kernels_(kernels), first_(train.tuning_window.at(0)), last_(train.tuning_window.at(1)) {}

KernelOptions TuningWindow::now() const {
  KernelOptions now = kernels_;
  if (on() && updates_ + 1 < first_) now.autotune = Autotune::heuristic;
  if (on() && updates_ + 1 > last_) now.autotune = Autotune::found;
  return now;
}

static double counted_in(const trace::Counters& moved, const char* what) {
  return double(trace::value_of(moved, cat("autotune.", what)));
}

static double hit_rate(const trace::Counters& moved) {
  const double hits = counted_in(moved, "hits");
  return hits / std::max(1.0, hits + counted_in(moved, "misses") + counted_in(moved, "searches"));
}

std::string TuningWindow::report() {
  if (!on() || updates_ < last_ || std::exchange(reported_, true)) return "";
  const trace::Counters moved = trace::moved_since(begin_);
  return fmt::format(
      "autotune: {:.0f} searches in {:.1f} s, {:.0f} repeated problems, {:.0f} found on disk, hit "
      "rate {:.1f} %",
      counted_in(moved, "searches"), 1e-6 * counted_in(moved, "search_us"),
      counted_in(moved, "repeated"), counted_in(moved, "kept"), 100 * hit_rate(moved));
}

Scalars TuningWindow::take() {
  if (kernels_.autotune == Autotune::heuristic) return {};
  const trace::Counters moved = trace::moved_since(std::exchange(taken_, trace::counters()));
  return {{"autotune_searches", counted_in(moved, "searches")},
          {"autotune_hit_rate", hit_rate(moved)}};
}

std::string profiler_note(const ProfileOptions& options) {
  if (options.window.empty()) return "";
  return cat("profile: updates ", options.window[0], " to ", options.window[1] - 1,
             "; to record them with Nsight Systems, pass the same options to  tools/nsys.sh");
}

}  // namespace bellows
