#include <algorithm>
#include <nlohmann/json.hpp>
#include "labs/profile/analysis.h"

namespace bellows {

StepTime median_step(const Recording& recording) {
  std::vector<StepTime> steps = recording.steps;
  const auto middle = steps.begin() + std::ssize(steps) / 2;
  std::ranges::nth_element(steps, middle, {}, &StepTime::ns);
  return *middle;
}

Json lanes_of(const Timeline& timeline, const Recording& recording, const StepTime& step) {
  Json lanes = {{"step", step.number}, {"s", 1e-9 * double(step.ns())}};
  for (const char* lane : {"phases", "ops", "gaps", "waits", "buckets"})
    lanes[lane] = Json::array();
  const auto add = [&](const char* lane, const std::string& name, const Slice* slice,
                       const auto& range) {
    if (range.end_ns <= step.begin_ns || range.begin_ns >= step.end_ns) return;
    const int64_t end_ns = std::min(range.end_ns, step.end_ns);
    Json& added = lanes[lane].emplace_back(Json{{"name", name},
                                                {"begin_ns", range.begin_ns - step.begin_ns},
                                                {"ns", end_ns - range.begin_ns}});
    if (slice && !slice->path.empty()) added["module"] = slice->path;
    if (slice && slice->kind == SliceKind::backward) added["backward"] = true;
  };
  for (const Slice& slice : timeline.slices) {
    if (slice.kind == SliceKind::phase) add("phases", slice.name, &slice, slice);
    if (slice.name == kBucketWait) add("waits", slice.name, &slice, slice);
    if (slice.computes() && !recording.activities) add("ops", slice.name, &slice, slice);
  }
  for (size_t i = 0; i < timeline.queued_by.size(); ++i) {
    if (timeline.queued_by[i] < 0) continue;
    const Slice& slice = timeline.slices[timeline.queued_by[i]];
    if (slice.step == step.number && slice.computes())
      add("ops", slice.name, &slice, (*recording.activities)[i]);
  }
  for (const Gap& gap : timeline.gaps)
    add("gaps", cause_of(timeline, gap.slice), &timeline.slices[gap.slice], gap);
  for (const trace::Event& span : recording.spans)
    if (is_bucket(span)) add("buckets", span.name, nullptr, span);
  return lanes;
}

// At most so many points, each the largest of its part, so that the peak stays.
static Json thinned(const std::vector<std::pair<int64_t, int64_t>>& points) {
  constexpr size_t kMost = 300;
  const size_t parts = std::min(points.size(), kMost);
  Json few = Json::array();
  for (size_t part = 0; part < parts; ++part) {
    const auto& [at_ns, bytes] =
        *std::max_element(points.begin() + part * points.size() / parts,
                          points.begin() + (part + 1) * points.size() / parts,
                          [](auto& a, auto& b) { return a.second < b.second; });
    few.push_back({at_ns, bytes});
  }
  return few;
}

Json typical_update(const Timeline& timeline, const Recording& recording) {
  const StepTime step = median_step(recording);
  Json update = lanes_of(timeline, recording, step);
  int64_t bytes = 0;  // in use
  for (const auto& [name, held] : recording.held) bytes += held;
  std::vector<std::pair<int64_t, int64_t>> in_use = {{0, bytes}};
  for (const trace::Allocation& entry : recording.allocations) {
    if (entry.at_ns >= step.end_ns) break;
    bytes += entry.bytes;
    if (entry.at_ns < step.begin_ns)
      in_use.front().second = bytes;
    else
      in_use.emplace_back(entry.at_ns - step.begin_ns, bytes);
  }
  update["bytes_in_use"] = thinned(in_use);
  return update;
}

}  // namespace bellows
