#include "labs/profile/analysis.h"
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>
#include "core/base/statistics.h"

namespace bellows {

namespace {

// Calls that are alike: an op in one direction, with its operands.
struct OpKey {
  std::string op;
  bool backward = false;
  std::string shapes = {}, dtype = {}, layout = {};  // "64x3x32x32 16x3x3x3 -> 64x16x32x32"
  auto operator<=>(const OpKey&) const = default;
};
struct OpCall {
  const Slice* slice;
  Cost work;         // as the op states it
  double ceiling_s;  // least time for that work; 0: unknown
  double flop_s;     // least time for its FLOP alone; 0: unknown
};
using CallsByKey = std::map<OpKey, std::vector<OpCall>>;

constexpr double kSecond = 1e-9;  // of a nanosecond

}  // namespace

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
                           const Ceilings& ceilings) {
  CallsByKey calls;
  for (const Slice& slice : timeline.slices) {
    if (!slice.computes()) continue;
    // The host's time alone is not the time of that work.
    const Cost work = on_host(recording) ? Cost{} : work_in(slice, recording);
    const DType dtype = slice.op < 0 ? DType::f32 : recording.ops[slice.op].dtype();
    calls[key_of(slice, recording)].push_back({&slice, work, ceilings.seconds(work, dtype),
                                               ceilings.seconds({.flop = work.flop}, dtype)});
  }
  return calls;
}

static double total_s(const Recording& recording) {
  double ns = 0;
  for (const StepTime& step : recording.steps) ns += double(step.ns());
  return kSecond * ns;
}

static Json sorted(std::vector<Json> rows, const char* by) {
  std::ranges::stable_sort(rows, std::greater<>(),
                           [by](const Json& row) { return row[by].get<double>(); });
  return rows;
}

// Self time; on a device that was timed, the time of the work that the call queued there.
static double seconds_of(const OpCall& call) { return kSecond * double(call.slice->work_ns); }

static Json rows_of(const CallsByKey& all, double total) {
  std::vector<Json> rows;
  for (const auto& [key, calls] : all) {
    double s = 0, ceiling_s = 0;
    Cost work;
    std::set<std::string> kernels;
    for (const OpCall& call : calls) {
      s += seconds_of(call);
      work += call.work;
      ceiling_s += call.ceiling_s;
      kernels.insert(call.slice->kernels.begin(), call.slice->kernels.end());
    }
    Json& row = rows.emplace_back(Json{{"op", key.op}, {"backward", key.backward}});
    if (!key.shapes.empty())
      row.update({{"shapes", key.shapes}, {"dtype", key.dtype}, {"layout", key.layout}});
    row.update({{"calls", calls.size()},
                {"s", s},
                {"mean_s", s / double(calls.size())},
                {"share", s / total},
                {"kernel", kernels.empty() ? "plain" : fmt::format("{}", fmt::join(kernels, ", "))},
                {"flop", work.flop},
                {"bytes", work.bytes},
                {"of_ceiling", ceiling_s > 0 && s > 0 ? Json(ceiling_s / s) : Json()}});
  }
  return sorted(std::move(rows), "s");
}

static void add_ops(Json& report, const CallsByKey& all, double total, double updates) {
  CallsByKey kinds;
  Cost work;
  double flop_s = 0;
  for (const auto& [key, calls] : all) {
    std::vector<OpCall>& kind = kinds[{key.op, key.backward}];
    kind.insert(kind.end(), calls.begin(), calls.end());
    for (const OpCall& call : calls) work += call.work, flop_s += call.flop_s;
  }
  report.update({{"flop", work.flop / updates},
                 {"bytes", work.bytes / updates},
                 {"mfu", flop_s > 0 ? Json(flop_s / total) : Json()},
                 {"ops", rows_of(kinds, total)},
                 {"ops_by_operands", rows_of(all, total)}});
}

static void add_phases(Json& report, const Timeline& timeline, bool on_device, double updates) {
  std::map<std::string, double> s, device;
  const double a_step_s = kSecond / updates;
  double sum = 0;
  for (const Slice& slice : timeline.slices) {
    if (slice.kind == SliceKind::update) continue;
    const std::string phase = slice.phase.empty() ? "other" : slice.phase;
    s[phase] += a_step_s * double(slice.self_ns);
    device[phase] += on_device ? a_step_s * double(slice.work_ns) : 0;
    sum += a_step_s * double(slice.self_ns);
  }
  report["batch_cost_s"] = sum;
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"input", "input wait"},    {"forward", "forward"},      {"backward", "backward"},
      {"optimizer", "optimizer"}, {"zero_grad", "clear_grad"}, {"other", "other"}};
  for (const auto& [phase, name] : kNames)
    report["phases"].push_back(
        {{"phase", name}, {"s", s[phase]}, {"share", s[phase] / sum}, {"device_s", device[phase]}});
}

static Json modules_in(const Timeline& timeline, double total, double updates) {
  std::map<std::string, std::array<double, 2>> times;  // forward and backward, of all updates
  for (const Slice& slice : timeline.slices) {
    const bool backward = slice.phase == "backward";
    if (!slice.path.empty() && (backward || slice.phase == "forward"))
      times[slice.path][backward] += kSecond * double(slice.work_ns);
  }
  std::vector<Json> rows;
  for (const auto& [path, s] : times)
    rows.push_back({{"module", path},
                    {"forward_s", s[0] / updates},
                    {"backward_s", s[1] / updates},
                    {"share", (s[0] + s[1]) / total}});
  return sorted(std::move(rows), "share");
}

static Json outliers_in(const CallsByKey& all) {
  constexpr size_t kFewest = 5;  // calls that have a median worth the name
  std::vector<Json> found;
  for (const auto& [key, calls] : all) {
    if (calls.size() < kFewest) continue;
    std::vector<double> s;
    for (const OpCall& call : calls) s.push_back(seconds_of(call));
    const std::vector<double> apart = distances_from_median(s);
    const double middle = median(s), mad = median(apart);
    for (size_t i = 0; i < s.size(); ++i)
      if (apart[i] > 3 * mad)
        found.push_back({{"op", key.op},
                         {"backward", key.backward},
                         {"shapes", key.shapes},
                         {"module", calls[i].slice->path},
                         {"step", calls[i].slice->step},
                         {"s", s[i]},
                         {"median_s", middle},
                         {"mad_s", mad}});
  }
  std::ranges::stable_sort(found, std::greater<>(), [](const Json& row) {
    return std::abs(row["s"].get<double>() - row["median_s"].get<double>());
  });
  return found;
}

static Json gaps_in(const Timeline& timeline, double total, double updates) {
  struct Sum {
    int64_t count = 0, longest_step = 0;
    double s = 0, longest_s = 0;
  };
  std::map<std::tuple<std::string, std::string, std::string>, Sum> sums;
  for (const Gap& gap : timeline.gaps) {
    const Slice& in = timeline.slices[gap.slice];
    const std::string range = in.name.starts_with("ProfilerStep#") ? "step" : in.name;
    Sum& sum = sums[{cause_of(timeline, gap.slice), range, in.path}];
    ++sum.count;
    const double s = kSecond * double(gap.end_ns - gap.begin_ns);
    sum.s += s;
    if (s > sum.longest_s) sum.longest_s = s, sum.longest_step = in.step;
  }
  std::vector<Json> rows;
  for (const auto& [key, sum] : sums)
    rows.push_back({{"cause", std::get<0>(key)},
                    {"in", std::get<1>(key)},
                    {"module", std::get<2>(key)},
                    {"count", sum.count},
                    {"s", sum.s / updates},
                    {"share", sum.s / total},
                    {"longest_s", sum.longest_s},
                    {"longest_step", sum.longest_step}});
  return sorted(std::move(rows), "s");
}

static Json threads_in(const Recording& recording) {
  std::map<uint64_t, ThreadLoad> sums;
  for (const ThreadLoad& load : recording.thread_loads) {
    ThreadLoad& sum = sums[load.thread];
    sum.end_ns += load.end_ns - load.begin_ns;
    sum.running_ns += load.running_ns;
    sum.runnable_ns += load.runnable_ns;
  }
  std::vector<Json> rows;
  for (const auto& [id, sum] : sums) {
    const auto named = recording.threads.find(id);
    if (named == recording.threads.end()) continue;
    // The scheduler adds up in ticks, so the sum of the others may exceed the time.
    const int64_t used = sum.running_ns + sum.runnable_ns;
    const double all = double(std::max<int64_t>({1, used, sum.end_ns}));
    rows.push_back({{"name", named->second},
                    {"id", id},
                    {"running", double(sum.running_ns) / all},
                    {"runnable", double(sum.runnable_ns) / all},
                    {"waiting", double(std::max<int64_t>(0, sum.end_ns - used)) / all}});
  }
  return sorted(std::move(rows), "running");
}

// Number of log entries until most bytes are in use.
static size_t peak_of(const std::vector<trace::Allocation>& log) {
  int64_t bytes = 0, most = 0;
  size_t end = 0;
  for (size_t i = 0; i < log.size(); ++i)
    if ((bytes += log[i].bytes) > most) most = bytes, end = i + 1;
  return end;
}

static Json memory_of(const Recording& recording) {
  const std::span log = std::span(recording.allocations).first(peak_of(recording.allocations));
  std::unordered_map<const void*, const trace::Allocation*> alive;
  int64_t older = 0;  // bytes released that were taken before the window
  for (const trace::Allocation& entry : log)
    if (entry.bytes >= 0)
      alive[entry.block] = &entry;
    else if (!alive.erase(entry.block))
      older -= entry.bytes;
  std::map<std::string, int64_t> tensors, held = recording.held;
  for (const auto& [block, entry] : alive) {
    const std::string& path = entry->site->path;
    tensors[path.empty() ? "outside of modules" : path] += entry->bytes;
  }
  held["other"] = std::max<int64_t>(0, held["other"] - older);
  for (const auto& [module, bytes] : tensors) held.try_emplace(module, 0);
  std::vector<Json> rows;
  int64_t peak_bytes = 0, peak_step = 0;
  for (const auto& [module, bytes] : held) {
    peak_bytes += bytes + tensors[module];
    if (bytes + tensors[module] > 0)
      rows.push_back({{"module", module}, {"held", bytes}, {"tensors", tensors[module]}});
  }
  std::ranges::stable_sort(rows, std::greater<>(), [](const Json& row) {
    return row["held"].get<int64_t>() + row["tensors"].get<int64_t>();
  });
  for (const StepTime& step : recording.steps)
    if (!log.empty() && step.begin_ns <= log.back().at_ns) peak_step = step.number;
  return {{"peak_bytes", peak_bytes}, {"step", peak_step}, {"modules", rows}};
}

Json analyze(const Recording& recording, const Ceilings& ceilings) {
  const Timeline timeline = timeline_of(recording);
  const double total = total_s(recording), updates = double(recording.steps.size());
  const bool on_device = recording.device != Device::cpu && !on_host(recording);
  const char* const times = on_device ? "time on the device" : "self time";
  const CallsByKey calls = calls_in(timeline, recording, ceilings);
  const Json threads = threads_in(recording);
  Json report = {{"kind", "profile"},
                 {"first_step", recording.steps.at(0).number},
                 {"times", on_host(recording) ? "time on the host" : times},
                 {"updates", recording.steps.size()},
                 {"update_s", total / updates},
                 {"waited_for_core_share", 0.0}};
  for (const Json& thread : threads)
    if (thread["id"] == recording.thread) report["waited_for_core_share"] = thread["runnable"];
  add_phases(report, timeline, on_device, updates);
  add_ops(report, calls, total, updates);
  report.update({{"ceilings",
                  {{"f32_flop_per_s", ceilings.f32},
                   {"bf16_flop_per_s", ceilings.bf16},
                   {"bytes_per_s", ceilings.bytes_per_s}}},
                 {"modules", modules_in(timeline, total, updates)},
                 {"outliers", outliers_in(calls)},
                 {"gaps", gaps_in(timeline, total, updates)},
                 {"thread_states", threads},
                 {"typical_update", typical_update(timeline, recording)},
                 {"memory", memory_of(recording)}});
  return report;
}

}  // namespace bellows
