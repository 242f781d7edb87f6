#include "labs/profile/timeline.h"
#include <algorithm>
#include <limits>

namespace bellows {

bool Slice::computes() const {
  return kind == SliceKind::forward || kind == SliceKind::backward || name == "optimizer" ||
         name == "zero_grad";
}

static bool is_phase(const std::string& name) {
  static const std::set<std::string> phases = {"input", "forward", "backward", "optimizer",
                                               "zero_grad"};
  return phases.contains(name);
}
// Ranges that may be anywhere, also in a module.
static bool is_wait(const std::string& name) {
  return name == "lock" || name == "synchronize" || name == kBucketWait;
}

namespace {

class Builder {
 public:
  explicit Builder(const Recording& recording) : recording_(recording) {}

  // Ranges come by begin, outer ones first.
  void begin(Slice slice) {
    close_until(slice.begin_ns);
    if (slice.kind == SliceKind::update) {
      waiting_.clear();
    } else {
      if (open_.empty()) return;  // not in the window
      own_time(slice.begin_ns);
      classify(slice);
      inherit(slice);
    }
    open_.push_back(int(all_.slices.size()));
    cursors_.push_back(slice.begin_ns);
    all_.slices.push_back(std::move(slice));
  }

  // An op that was recorded at end_ns.
  void add(int index) {
    const RecordedOp& op = recording_.ops[index];
    close_until(op.end_ns);
    if (open_.empty()) return;
    Slice slice{op.name, op.path, SliceKind::forward, cursors_.back(), op.end_ns};
    slice.op = index;
    slice.self_ns = slice.ns();
    inherit(slice);
    own_.push_back({int(all_.slices.size()), slice.begin_ns, op.end_ns});
    cursors_.back() = op.end_ns;
    waiting_[{op.name, op.path}].push_back(index);
    all_.slices.push_back(std::move(slice));
  }

  Timeline finish() {
    while (!open_.empty()) close();
    for (const trace::KernelRun& run : recording_.kernels)
      if (const int at = slice_at(run.at_ns); at >= 0 && run.thread == recording_.thread)
        all_.slices[at].kernels.insert(run.name);
    if (recording_.activities) {
      add_activities(*recording_.activities);
    } else {
      for (Slice& slice : all_.slices) slice.work_ns = slice.self_ns;
      for (const Gap& own : own_)
        if (!all_.slices[own.slice].computes()) all_.gaps.push_back(own);
    }
    return std::move(all_);
  }

 private:
  void classify(Slice& slice) {
    const Slice& parent = all_.slices[open_.back()];
    if (parent.name == "backward" && !is_wait(slice.name)) {
      slice.kind = SliceKind::backward;
      if (auto& calls = waiting_[{slice.name, slice.path}]; !calls.empty()) {
        slice.op = calls.back();
        calls.pop_back();
      }
    } else if (is_phase(slice.name)) {
      slice.kind = SliceKind::phase;
    } else if ((parent.phase == "forward" || parent.phase == "backward") && !is_wait(slice.name)) {
      slice.kind = SliceKind::module;
    }
  }

  void inherit(Slice& slice) const {
    const Slice& parent = all_.slices[open_.back()];
    slice.parent = open_.back();
    slice.step = parent.step;
    slice.phase = parent.phase;
    if (slice.phase.empty() && slice.kind == SliceKind::phase) slice.phase = slice.name;
  }

  // Gives the time up to `end_ns` to the innermost slice.
  void own_time(int64_t end_ns) {
    Slice& slice = all_.slices[open_.back()];
    if (end_ns <= cursors_.back()) return;
    slice.self_ns += end_ns - cursors_.back();
    own_.push_back({open_.back(), cursors_.back(), end_ns});
  }

  void close() {
    const int64_t end_ns = all_.slices[open_.back()].end_ns;
    own_time(end_ns);
    open_.pop_back();
    cursors_.pop_back();
    if (!open_.empty()) cursors_.back() = end_ns;
  }
  void close_until(int64_t now) {
    while (!open_.empty() && all_.slices[open_.back()].end_ns <= now) close();
  }

  // Returns the slice whose own time `at_ns` is; -1: none.
  int slice_at(int64_t at_ns) const {
    const auto after = std::ranges::upper_bound(own_, at_ns, {}, &Gap::begin_ns);
    return after != own_.begin() && at_ns < after[-1].end_ns ? after[-1].slice : -1;
  }

  // Gives each slice the time of what it queued. Gaps are what no activity of any stream covers.
  void add_activities(const std::vector<Activity>& activities) {
    for (const Activity& a : activities) {
      const int slice = a.thread == recording_.thread ? slice_at(a.queued_ns) : -1;
      all_.queued_by.push_back(slice);
      if (slice >= 0) all_.slices[slice].work_ns += a.end_ns - a.begin_ns;
    }
    auto next = activities.begin();
    int64_t idle_ns = 0;  // the device has run all before `next` by then
    for (const Gap& own : own_) {
      for (int64_t at = own.begin_ns; at < own.end_ns;) {
        for (; next != activities.end() && next->begin_ns <= std::max(at, idle_ns); ++next)
          idle_ns = std::max(idle_ns, next->end_ns);
        const int64_t busy_ns = next == activities.end() ? own.end_ns : next->begin_ns;
        const int64_t begin = std::max(at, idle_ns), end = std::min(own.end_ns, busy_ns);
        if (begin < end) all_.gaps.push_back({own.slice, begin, end});
        at = std::max(begin, end);
      }
    }
  }

  const Recording& recording_;
  Timeline all_;
  std::vector<Gap> own_;          // each slice's own time, in order
  std::vector<int> open_;         // indices of slices, the innermost last
  std::vector<int64_t> cursors_;  // end of the last slice inside each of them
  std::map<std::pair<std::string, std::string>, std::vector<int>> waiting_;  // for their backward
};

}  // namespace

Timeline timeline_of(const Recording& recording) {
  std::vector<Slice> ranges;
  for (const StepTime& step : recording.steps) {
    ranges.push_back({"loop", "", SliceKind::update, step.begin_ns, step.end_ns});
    ranges.back().step = step.number;
  }
  // A range is recorded at its end, after those inside it.
  for (auto span = recording.spans.rbegin(); span != recording.spans.rend(); ++span)
    if (span->thread == recording.thread)
      ranges.push_back({span->name, span->path, SliceKind::other, span->begin_ns, span->end_ns});
  std::ranges::stable_sort(
      ranges, {}, [](const Slice& range) { return std::pair(range.begin_ns, -range.end_ns); });
  Builder builder(recording);
  int op = 0;
  const auto add_until = [&](int64_t begin_ns) {
    for (; op < std::ssize(recording.ops) && recording.ops[op].end_ns < begin_ns; ++op)
      builder.add(op);
  };
  for (Slice& range : ranges) {
    add_until(range.begin_ns);
    builder.begin(std::move(range));
  }
  add_until(std::numeric_limits<int64_t>::max());
  return builder.finish();
}

std::string cause_of(const Timeline& timeline, int slice) {
  if (timeline.slices[slice].computes()) return "launch";
  for (; slice >= 0; slice = timeline.slices[slice].parent) {
    const std::string& name = timeline.slices[slice].name;
    if (name == "input" || name == "lock") return name;
    if (is_wait(name)) return "sync";
  }
  return "host";
}

}  // namespace bellows
