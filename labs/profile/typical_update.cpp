#include <algorithm>
#include "labs/profile/analysis.h"

namespace bellows {

static const StepTime& median_step(const Recording& recording) {
  std::vector<const StepTime*> steps;
  for (const StepTime& step : recording.steps) steps.push_back(&step);
  const auto middle = steps.begin() + std::ssize(steps) / 2;
  std::ranges::nth_element(steps, middle, {},
                           [](const StepTime* step) { return step->end_ns - step->begin_ns; });
  return **middle;
}

// At most so many points, each the largest of its part, so that the peak stays.
static std::vector<std::pair<double, int64_t>> thinned(
    const std::vector<std::pair<double, int64_t>>& points) {
  constexpr size_t kMost = 300;
  if (points.size() <= kMost) return points;
  std::vector<std::pair<double, int64_t>> few;
  for (size_t part = 0; part < kMost; ++part)
    few.push_back(*std::max_element(points.begin() + part * points.size() / kMost,
                                    points.begin() + (part + 1) * points.size() / kMost,
                                    [](auto& a, auto& b) { return a.second < b.second; }));
  return few;
}

TypicalUpdate typical_update(const Timeline& timeline, const Recording& recording,
                             int64_t peak_bytes) {
  const StepTime& step = median_step(recording);
  const auto seconds = [&](int64_t ns) { return 1e-9 * double(ns - step.begin_ns); };
  TypicalUpdate update{step.number, seconds(step.end_ns), {}, {}, {}};
  for (const Slice& slice : timeline.slices) {
    if (slice.step != step.number) continue;
    const TimedRange interval = {slice.name, slice.path, slice.kind == SliceKind::backward,
                                 seconds(slice.begin_ns), seconds(slice.end_ns)};
    if (slice.kind == SliceKind::phase) update.phases.push_back(interval);
    if (slice.computes() && !recording.activities) update.ops.push_back(interval);
  }
  for (size_t i = 0; i < timeline.queued_by.size(); ++i) {
    if (timeline.queued_by[i] < 0) continue;
    const Slice& slice = timeline.slices[timeline.queued_by[i]];
    const Activity& a = (*recording.activities)[i];
    if (slice.step == step.number && slice.computes() && a.begin_ns < step.end_ns)
      update.ops.push_back({slice.name, slice.path, slice.kind == SliceKind::backward,
                            seconds(a.begin_ns), seconds(std::min(a.end_ns, step.end_ns))});
  }
  for (const Gap& gap : timeline.gaps)
    if (timeline.slices[gap.slice].step == step.number)
      update.gaps.push_back({cause_of(timeline, gap.slice), timeline.slices[gap.slice].path, false,
                             seconds(gap.begin_ns), seconds(gap.end_ns)});
  int64_t bytes = 0, most = 0;
  for (const trace::Allocation& entry : recording.allocations)
    most = std::max(most, bytes += entry.bytes);
  bytes = peak_bytes - most;  // in use when the window began
  update.bytes.emplace_back(0, bytes);
  for (const trace::Allocation& entry : recording.allocations) {
    if (entry.at_ns >= step.end_ns) break;
    bytes += entry.bytes;
    if (entry.at_ns < step.begin_ns)
      update.bytes.front().second = bytes;
    else
      update.bytes.emplace_back(seconds(entry.at_ns), bytes);
  }
  update.bytes = thinned(update.bytes);
  return update;
}

}  // namespace bellows
