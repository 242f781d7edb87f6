// A profile of several ranks: what each of them computed, which of its buckets were on their way,
// when its compute thread waited for them, and how much memory it took.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include "core/device/allocator.h"
#include "core/device/topology.h"
#include "labs/profile/analysis.h"
#include "trainer/log/meter.h"
#include "trainer/session/session.h"
#include "trainer/verbs/tables.h"

namespace bellows {

static Json part_of(const Recording& recording, int64_t step) {
  const Timeline timeline = timeline_of(recording);
  const StepTime& shown = *std::ranges::find(recording.steps, step, &StepTime::number);
  int64_t sent_ns = 0, exposed_ns = 0;
  for (const trace::Event& span : recording.spans) {
    if (!is_bucket(span)) continue;
    sent_ns += span.end_ns - span.begin_ns;
    for (const Slice& wait : timeline.slices)
      if (wait.name == kBucketWait)
        exposed_ns += std::max<int64_t>(
            0, std::min(span.end_ns, wait.end_ns) - std::max(span.begin_ns, wait.begin_ns));
  }
  const double a_step_s = 1e-9 / double(recording.steps.size());
  Json part = lanes_of(timeline, recording, shown);
  part.erase("gaps");  // a value of the store has at most 1 MiB
  // Processes of one boot share trace::now_ns(); "" if the system hides it.
  part.update({{"host", first_line("/proc/sys/kernel/random/boot_id")},
               {"begin_ns", shown.begin_ns},
               {"all_reduce_s", a_step_s * double(sent_ns)},
               {"exposed_s", a_step_s * double(exposed_ns)},
               {"max_mem_allocated", allocator_stats(recording.device).peak_allocated},
               {"peak_resident_bytes", peak_resident_bytes()}});
  return part;
}

Json gather_ranks(const Session& session, const Recording& recording) {
  if (session.ranks.world == 1) return {};
  const Timeout patience = timeout_of(session.plan.dist.timeout_s);
  const auto key = [](const auto& name) { return cat("profile/", name); };
  Store& store = *session.store;
  if (session.ranks.rank == 0) store.set(key("step"), cat(median_step(recording).number));
  const Json mine = part_of(recording, std::stoll(store.get(key("step"), patience)));
  if (session.ranks.rank > 0) return store.set(key(session.ranks.rank), mine.dump()), Json();
  Json parts = {mine};
  for (int rank = 1; rank < session.ranks.world; ++rank)
    parts.push_back(parse_json(store.get(key(rank), patience)));
  int64_t first_ns = mine["begin_ns"];
  for (Json& part : parts) {
    part["shares_clock"] = part["host"] == mine["host"];
    if (part["shares_clock"]) first_ns = std::min<int64_t>(first_ns, part["begin_ns"]);
  }
  for (Json& part : parts)
    part["begin_ns"] = part["shares_clock"] ? part["begin_ns"].get<int64_t>() - first_ns : 0;
  return parts;
}

constexpr size_t kColumns = 70;  // of the picture

// The smallest of 1, 2, 5 x 10^n ns of which `columns` hold `ns`.
static double column_width(double ns, double columns) {
  const double power = std::pow(10, std::floor(std::log10(ns / columns)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power * columns >= ns) return factor * power;
  return 10 * power;
}

static char letter_of(const Json& op) {
  const std::string name = op["name"];
  return name == "optimizer" || name == "zero_grad" ? 'o' : op.value("backward", false) ? 'b' : 'f';
}

// Two lines of a rank. Each column shows the range at its middle.
static std::string drawn(const Json& part, size_t rank, double width_ns) {
  std::string computing(kColumns, ' '), sending = computing;
  const auto draw = [&](std::string& row, const char* lane, const auto& letter) {
    for (const Json& range : part[lane]) {
      const double begin = part["begin_ns"].get<double>() + range["begin_ns"].get<double>();
      const double end = begin + range["ns"].get<double>();
      for (size_t i = 0; i < row.size(); ++i)
        if (const double at = (double(i) + 0.5) * width_ns; at >= begin && at < end)
          row[i] = letter(range);
    }
  };
  draw(computing, "ops", letter_of);
  draw(computing, "waits", [](const Json&) { return '!'; });
  draw(sending, "buckets", [](const Json& bucket) {
    const std::string name = bucket["name"];  // "bucket 12 (conv1.weight)"
    return name[name.find(' ', 7) - 1];
  });
  return cat(aligned({{cat("rank ", rank), computing}, {"", sending}}),
             part["shares_clock"] ? "" : "on another host, whose clock is not rank 0's\n");
}

std::string ranks_text(const Json& ranks) {
  std::vector<TableRow> rows = {
      {"rank", "all-reduce ms a step", "hidden", "exposed", "tensors MiB", "process MiB"}};
  double end_ns = 1;
  for (const Json& part : ranks) {
    const double all = 1e3 * part["all_reduce_s"].get<double>();
    const double exposed = 1e3 * part["exposed_s"].get<double>();
    rows.push_back({cat(rows.size() - 1)});
    for (const double ms : {all, all - exposed, exposed})
      rows.back().push_back(fmt::format("{:.3f}", ms));
    for (const char* peak : {"max_mem_allocated", "peak_resident_bytes"})
      rows.back().push_back(fmt::format("{:.1f}", part[peak].get<double>() / (1 << 20)));
    end_ns = std::max(end_ns, part["begin_ns"].get<double>() + 1e9 * part["s"].get<double>());
  }
  const double width_ns = column_width(end_ns, kColumns);
  std::string text = cat(
      aligned(rows, "rrrrrr"), "\nstep ", ranks[0]["step"].get<int64_t>(), ", ", 1e-6 * width_ns,
      " ms a column; f forward, b backward, o optimizer, ! exposed wait;\nbelow each rank the "
      "number of the bucket that is on its way, its last digit\n");
  for (size_t rank = 0; rank < ranks.size(); ++rank) text += drawn(ranks[rank], rank, width_ns);
  return text;
}

}  // namespace bellows
