#include "trainer/session/tuning_window.h"
#include <fmt/format.h>
#include "core/base/trace.h"

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
  begin_ = counts();
  reported_ = false;
}

double TuningWindow::Counts::hit_rate() const {
  return double(hits) / double(std::max<int64_t>(1, hits + misses + searches));
}

TuningWindow::Counts TuningWindow::counts() {
  const auto value = [](const char* name) { return trace::counter(name).value(); };
  return {value("autotune.searches"), value("autotune.repeated"), value("autotune.kept"),
          value("autotune.hits"),     value("autotune.misses"),   value("autotune.search_us")};
}

TuningWindow::Counts TuningWindow::since(const Counts& before) const {
  const Counts now = counts();
  return {now.searches - before.searches, now.repeated - before.repeated,
          now.kept - before.kept,         now.hits - before.hits,
          now.misses - before.misses,     now.search_us - before.search_us};
}

std::string TuningWindow::report() {
  if (!on() || updates_ < last_ || std::exchange(reported_, true)) return "";
  const Counts c = since(begin_);
  return fmt::format(
      "autotune: {} searches in {:.1f} s, {} repeated problems, {} found on disk, hit rate {:.1f} "
      "%",
      c.searches, double(c.search_us) * 1e-6, c.repeated, c.kept, 100 * c.hit_rate());
}

Scalars TuningWindow::take() {
  if (kernels_.autotune == Autotune::heuristic) return {};
  const Counts c = since(taken_);
  taken_ = counts();
  return {{"autotune_searches", double(c.searches)}, {"autotune_hit_rate", c.hit_rate()}};
}

}  // namespace bellows
