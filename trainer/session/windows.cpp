#include "trainer/session/windows.h"
#include <fmt/format.h>
#include "core/base/check.h"

namespace bellows {

// ---- tuning

TuningWindow::TuningWindow(const TrainOptions& train, const KernelOptions& kernels)
    : kernels_(kernels), first_(train.tuning_window.at(0)), last_(train.tuning_window.at(1)) {}

KernelOptions TuningWindow::now() const {
  KernelOptions now = kernels_;
  if (on() && updates_ + 1 < first_) now.autotune = Autotune::heuristic;
  if (on() && updates_ + 1 > last_) now.autotune = Autotune::found;
  return now;
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

// ---- profiling

ProfileWindow::~ProfileWindow() {
  step_.reset();
  if (marking_) trace::mark(false);
}

void ProfileWindow::begin(int64_t update) {
  if (options_.window.empty() || update >= options_.window[1]) return;
  if (!marking_ && update >= options_.window[0]) trace::mark(marking_ = true);
  if (!marking_) return;
  name_ = cat("ProfilerStep#", update);
  step_.emplace(name_.c_str());
}

void ProfileWindow::end(int64_t update) {
  step_.reset();
  if (marking_ && update + 1 >= options_.window[1]) trace::mark(marking_ = false);
}

bool ProfileWindow::ends_the_run(int64_t updates) const {
  return options_.exit_after && !options_.window.empty() && updates >= options_.window[1];
}

std::string profiler_command(const ProfileOptions& options, const std::string& name) {
  if (options.window.empty()) return "";
  return cat(
      "profile: updates ", options.window[0], " to ", options.window[1],
      "; recorded by  nsys profile -t cuda,nvtx,osrt,cudnn,cublas -c cudaProfilerApi -f true "
      "-o ",
      name, " trainer ...");
}

}  // namespace bellows
