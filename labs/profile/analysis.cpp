#include "labs/profile/analysis.h"
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <unordered_map>
#include "core/base/statistics.h"

namespace bellows {

namespace {

struct Calls {
  OpRow row;
  std::vector<const Slice*> slices;
};
using CallsByKey = std::map<OpKey, Calls>;

constexpr double kSecond = 1e-9;  // of a nanosecond

}  // namespace

std::string OpRow::kernel() const {
  return kernels.empty() ? "plain" : fmt::format("{}", fmt::join(kernels, ", "));
}

static std::string text_of(const Shape& shape) {
  std::string text;
  for (const int64_t dim : shape) text += cat(text.empty() ? "" : "x", dim);
  return text.empty() ? "scalar" : text;
}

static OpKey key_of(const Slice& slice, const Recording& recording) {
  OpKey key{slice.name, slice.kind == SliceKind::backward, "", "", ""};
  if (slice.op < 0) return key;
  const RecordedOp& op = recording.ops[slice.op];
  for (const Operand& x : op.inputs) {
    if (x.defined) key.shapes += text_of(x.shape) + " ";
    if (key.layout.empty()) key.layout = x.layout;
  }
  key.shapes += "-> " + text_of(op.y);
  key.dtype = cat(op.dtype());
  return key;
}

// Nothing for a range that is not an op, and for an op whose shapes do not determine its work.
static Cost work_in(const Slice& slice, const Recording& recording) {
  try {
    if (slice.name == "optimizer") return recording.update;
    if (slice.op < 0) return {};
    const OpWork work = work_of(recording.ops[slice.op]);
    return slice.kind == SliceKind::backward ? work.backward : work.forward;
  } catch (const Error&) {
    return {};
  }
}

static CallsByKey calls_in(const Timeline& timeline, const Recording& recording,
                           const Ceilings& ceilings, Timed timed) {
  CallsByKey calls;
  for (const Slice& slice : timeline.slices) {
    if (!slice.computes()) continue;
    const OpKey key = key_of(slice, recording);
    auto& [row, slices] = calls[key];
    // The host's time alone is not the time of that work.
    const Cost work = timed == Timed::host ? Cost{} : work_in(slice, recording);
    row.key = key;
    ++row.calls;
    row.s += kSecond * double(slice.work_ns);
    row.work += work;
    const DType dtype = slice.op < 0 ? DType::f32 : recording.ops[slice.op].dtype();
    row.ceiling_s += ceilings.seconds(work, dtype);
    row.flop_s += ceilings.seconds({.flop = work.flop}, dtype);
    row.kernels.insert(slice.kernels.begin(), slice.kernels.end());
    slices.push_back(&slice);
  }
  return calls;
}

static double total_s(const Recording& recording) {
  double ns = 0;
  for (const StepTime& step : recording.steps) ns += double(step.end_ns - step.begin_ns);
  return kSecond * ns;
}

template <class Key, class Row>
static std::vector<Row> sorted(const std::map<Key, Row>& rows, double Row::*by) {
  std::vector<Row> list;
  for (const auto& [key, row] : rows) list.push_back(row);
  std::ranges::stable_sort(list, std::greater<>(), by);
  return list;
}

static std::vector<OpRow> by_kind(const std::map<OpKey, OpRow>& ops, double total) {
  std::map<OpKey, OpRow> kinds;
  for (const auto& [key, op] : ops) {
    OpRow& kind = kinds[{key.op, key.backward, "", "", ""}];
    kind.key = {key.op, key.backward, "", "", ""};
    kind.calls += op.calls;
    kind.s += op.s;
    kind.work += op.work;
    kind.ceiling_s += op.ceiling_s;
    kind.flop_s += op.flop_s;
    kind.kernels.insert(op.kernels.begin(), op.kernels.end());
  }
  for (auto& [name, kind] : kinds) kind.share = kind.s / total;
  return sorted(kinds, &OpRow::s);
}

static void add_phases(Profile& profile, const Timeline& timeline) {
  std::map<std::string, double> s, device;
  double sum = 0;
  for (const Slice& slice : timeline.slices) {
    if (slice.kind == SliceKind::update) continue;
    const double self = kSecond * double(slice.self_ns) / double(profile.updates);
    const std::string phase = slice.phase.empty() ? "other" : slice.phase;
    s[phase] += self;
    device[phase] += kSecond * double(slice.work_ns) / double(profile.updates);
    sum += self;
  }
  profile.batch_cost_s = sum;
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"input", "input wait"},    {"forward", "forward"},      {"backward", "backward"},
      {"optimizer", "optimizer"}, {"zero_grad", "clear_grad"}, {"other", "other"}};
  for (const auto& [phase, name] : kNames)
    profile.phases.push_back(
        {name, s[phase], s[phase] / sum, profile.timed == Timed::device ? device[phase] : 0});
}

static std::vector<ModuleRow> modules_in(const Timeline& timeline, const Profile& profile) {
  std::map<std::string, ModuleRow> rows;
  for (const Slice& slice : timeline.slices) {
    const bool backward = slice.phase == "backward";
    if (slice.path.empty() || !(backward || slice.phase == "forward")) continue;
    ModuleRow& row = rows.try_emplace(slice.path, ModuleRow{slice.path}).first->second;
    (backward ? row.backward_s : row.forward_s) +=
        kSecond * double(slice.work_ns) / double(profile.updates);
  }
  for (auto& [path, row] : rows) row.share = (row.forward_s + row.backward_s) / profile.update_s;
  return sorted(rows, &ModuleRow::share);
}

static std::vector<Outlier> outliers_in(const CallsByKey& calls) {
  constexpr size_t kFewest = 5;  // calls that have a median worth the name
  std::vector<Outlier> found;
  for (const auto& [key, all] : calls) {
    if (all.slices.size() < kFewest) continue;
    std::vector<double> s;
    for (const Slice* slice : all.slices) s.push_back(kSecond * double(slice->work_ns));
    const std::vector<double> apart = distances_from_median(s);
    const double middle = median(s), mad = median(apart);
    for (size_t i = 0; i < s.size(); ++i)
      if (apart[i] > 3 * mad)
        found.push_back({key, all.slices[i]->path, all.slices[i]->step, s[i], middle, mad});
  }
  std::ranges::stable_sort(found, std::greater<>(),
                           [](const Outlier& o) { return std::abs(o.s - o.median_s); });
  return found;
}

static std::vector<GapRow> gaps_in(const Timeline& timeline, const Profile& profile) {
  std::map<std::tuple<std::string, std::string, std::string>, GapRow> rows;
  for (const Gap& gap : timeline.gaps) {
    const Slice& in = timeline.slices[gap.slice];
    const std::string range = in.name.starts_with("ProfilerStep#") ? "step" : in.name;
    const std::string cause = cause_of(timeline, gap.slice);
    GapRow& row =
        rows.try_emplace({cause, range, in.path}, GapRow{cause, range, in.path}).first->second;
    ++row.count;
    const double s = kSecond * double(gap.end_ns - gap.begin_ns);
    row.s += s / double(profile.updates);
    if (s > row.longest_s) row.longest_s = s, row.longest_step = in.step;
  }
  for (auto& [key, row] : rows) row.share = row.s / profile.update_s;
  return sorted(rows, &GapRow::s);
}

static std::vector<ThreadRow> threads_in(const Recording& recording) {
  std::map<uint64_t, ThreadRow> rows;
  for (const ThreadLoad& load : recording.thread_loads) {
    const auto named = recording.threads.find(load.thread);
    if (named == recording.threads.end()) continue;
    ThreadRow& row =
        rows.try_emplace(load.thread, ThreadRow{load.thread, named->second}).first->second;
    const double running = double(load.running_ns), runnable = double(load.runnable_ns);
    row.running += running;
    row.runnable += runnable;
    row.waiting += double(load.end_ns - load.begin_ns) - running - runnable;
  }
  for (auto& [id, row] : rows) {
    // The scheduler adds up in ticks, so the sum of the others may exceed the time.
    row.waiting = std::max(0.0, row.waiting);
    const double all = std::max(1.0, row.running + row.runnable + row.waiting);
    for (double* part : {&row.running, &row.runnable, &row.waiting}) *part /= all;
  }
  return sorted(rows, &ThreadRow::running);
}

// Number of log entries until most bytes are in use.
static size_t peak_of(const std::vector<trace::Allocation>& log) {
  int64_t bytes = 0, most = 0;
  size_t end = 0;
  for (size_t i = 0; i < log.size(); ++i)
    if ((bytes += log[i].bytes) > most) most = bytes, end = i + 1;
  return end;
}

static void add_memory(Profile& profile, const Recording& recording) {
  const std::span log = std::span(recording.allocations).first(peak_of(recording.allocations));
  std::unordered_map<const void*, const trace::Allocation*> alive;
  int64_t older = 0;  // bytes released that were taken before the window
  for (const trace::Allocation& entry : log)
    if (entry.bytes >= 0)
      alive[entry.block] = &entry;
    else if (!alive.erase(entry.block))
      older -= entry.bytes;
  std::map<std::string, MemoryRow> rows;
  for (const auto& [block, entry] : alive) {
    const std::string& path = entry->site->path;
    rows[path.empty() ? "outside of modules" : path].tensors += entry->bytes;
  }
  for (const Held& held : recording.held)
    rows[held.module.empty() ? held.what : held.module].held += held.bytes;
  rows["other"].held = std::max<int64_t>(0, rows["other"].held - older);
  for (auto& [module, row] : rows) {
    row.module = module;
    profile.peak_bytes += row.bytes();
    if (row.bytes() > 0) profile.memory.push_back(row);
  }
  std::ranges::stable_sort(profile.memory, std::greater<>(), &MemoryRow::bytes);
  for (const StepTime& step : recording.steps)
    if (!log.empty() && step.begin_ns <= log.back().at_ns) profile.peak_step = step.number;
}

Profile analyze(const Recording& recording, const Ceilings& ceilings) {
  const Timeline timeline = timeline_of(recording);
  const double total = total_s(recording);
  Profile profile;
  if (recording.device != Device::cpu)
    profile.timed = recording.activities ? Timed::device : Timed::host;
  profile.first = recording.steps.at(0).number;
  profile.updates = std::ssize(recording.steps);
  profile.update_s = total / double(profile.updates);
  profile.threads = threads_in(recording);
  const auto compute = std::ranges::find(profile.threads, recording.thread, &ThreadRow::id);
  if (compute != profile.threads.end()) profile.waited_share = compute->runnable;
  const CallsByKey calls = calls_in(timeline, recording, ceilings, profile.timed);
  std::map<OpKey, OpRow> ops;
  for (const auto& [key, all] : calls) ops[key] = all.row;
  for (auto& [key, op] : ops) op.share = op.s / total;
  profile.ops = sorted(ops, &OpRow::s);
  profile.kinds = by_kind(ops, total);
  for (const OpRow& op : profile.ops) {
    profile.work.flop += op.work.flop / double(profile.updates);
    profile.work.bytes += op.work.bytes / double(profile.updates);
    profile.mfu += op.flop_s / total;
  }
  add_phases(profile, timeline);
  profile.modules = modules_in(timeline, profile);
  profile.outliers = outliers_in(calls);
  profile.gaps = gaps_in(timeline, profile);
  add_memory(profile, recording);
  profile.typical = typical_update(timeline, recording, profile.peak_bytes);
  return profile;
}

}  // namespace bellows
