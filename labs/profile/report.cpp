#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include "core/base/words.h"
#include "labs/profile/analysis.h"
#include "trainer/verbs/tables.h"

namespace bellows {

static constexpr size_t kRows = 10;  // of a table

static std::string ms(double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); }
static std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
static std::string mib(int64_t bytes) { return fmt::format("{:.2f}", double(bytes) / (1 << 20)); }
static std::string fitting(const std::string& text, size_t columns) {
  return text.size() <= columns ? text : text.substr(0, columns - 3) + "...";
}
// The end of a module's path tells more than its begin.
static std::string ending(const std::string& text, size_t columns) {
  return text.size() <= columns ? text : "..." + text.substr(text.size() + 3 - columns);
}
static std::string name_of(const OpKey& key) {
  return fitting(key.op, 16) + (key.backward ? ", back" : "");
}

template <class Row> static std::span<const Row> top(const std::vector<Row>& rows) {
  return std::span(rows).first(std::min(rows.size(), kRows));
}
template <class Row>
static std::string heading(const std::string& what, const std::vector<Row>& rows) {
  const std::string all = rows.size() > kRows ? cat(", ", kRows, " of ", rows.size()) : "";
  return cat("\n", what, all, "\n");
}

static std::string rate(double work, double s) {
  return work > 0 && s > 0 ? fmt::format("{:.1f}", 1e-9 * work / s) : "";
}
static std::string of_ceiling(const OpRow& row) {
  return row.ceiling_s > 0 && row.s > 0 ? fmt::format("{:.0f} %", 100 * row.ceiling_s / row.s) : "";
}
static TableRow cells(const OpRow& row) {
  return {name_of(row.key),
          cat(row.calls),
          fmt::format("{:.1f}", 1e3 * row.s),
          ms(row.mean_s()),
          percent(row.share),
          rate(row.work.flop, row.s),
          rate(row.work.bytes, row.s),
          of_ceiling(row)};
}
static const TableRow kOpColumns = {"op",    "calls",   "ms",   "mean ms",
                                    "share", "GFLOP/s", "GB/s", "peak"};

static const char* times_of(const Profile& p) {
  constexpr const char* kTimes[] = {"self time", "time on the device", "time on the host"};
  return kTimes[int(p.timed)];
}

static std::string phases_text(const Profile& p) {
  std::vector<TableRow> rows = {{"phase", "ms a step", "share", "device ms"}};
  double device_s = 0;
  for (const PhaseRow& row : p.phases) {
    rows.push_back({row.name, ms(row.s), percent(row.share), ms(row.device_s)});
    device_s += row.device_s;
  }
  rows.push_back({"batch_cost", ms(p.batch_cost_s), percent(1), ms(device_s)});
  if (p.timed != Timed::device)
    for (TableRow& row : rows) row.pop_back();
  return aligned(rows, "lrrr");
}

// The kernels and operands of a key are in a line of their own, below its numbers.
static std::string ops_text(const Profile& p) {
  std::vector<TableRow> rows = {kOpColumns};
  for (const OpRow& row : top(p.ops)) rows.push_back(cells(row));
  std::istringstream table(aligned(rows, "lrrrrrrr"));
  std::string text = heading(cat("ops by operands, ", times_of(p)), p.ops), line;
  for (size_t i = 0; std::getline(table, line); ++i) {
    text += line + "\n";
    if (i == 0 || p.ops[i - 1].key.shapes.empty()) continue;
    const OpKey& key = p.ops[i - 1].key;
    text += cat("  ",
                fitting(cat(p.ops[i - 1].kernel(), ", ", key.dtype, key.layout.empty() ? "" : " ",
                            key.layout, ": ", key.shapes),
                        78),
                "\n");
  }
  return text;
}

static std::string kinds_text(const Profile& p, const Ceilings& c) {
  std::vector<TableRow> rows = {kOpColumns};
  for (const OpRow& row : top(p.kinds)) rows.push_back(cells(row));
  std::string text = heading(cat("ops, ", times_of(p)), p.kinds) + aligned(rows, "lrrrrrrr");
  if (p.timed == Timed::host) return text;  // without ceilings: they are the device's
  text += fmt::format("peak: of {:.0f} GFLOP/s in f32", 1e-9 * c.f32);
  if (c.bf16 > 0) text += fmt::format(", {:.0f} in bf16", 1e-9 * c.bf16);
  text += fmt::format(
      " or {:.1f} GB/s, as measured here\nnow. Data in a cache and algorithms with fewer products "
      "may exceed it.\n",
      1e-9 * c.bytes_per_s);
  for (const OpRow& row : p.kinds)
    if (row.ceiling_s > row.s && row.kernels.contains("winograd"))
      text += cat(name_of(row.key), " exceeds it by winograd, which needs fewer products.\n");
  return text;
}

static std::string modules_text(const Profile& p) {
  std::vector<TableRow> rows = {{"module", "forward ms", "backward ms", "share"}};
  for (const ModuleRow& row : top(p.modules))
    rows.push_back(
        {ending(row.path, 40), ms(row.forward_s), ms(row.backward_s), percent(row.share)});
  return heading(cat("modules, ", times_of(p), " a step"), p.modules) + aligned(rows, "lrrr");
}

static std::string outliers_text(const Profile& p) {
  if (p.outliers.empty()) return "\nslow calls: none more than 3 MAD from their median\n";
  std::vector<TableRow> rows = {{"op", "module", "step", "ms", "median ms", "MAD"}};
  for (const Outlier& o : top(p.outliers))
    rows.push_back(
        {name_of(o.key), ending(o.path, 16), cat(o.step), ms(o.s), ms(o.median_s), ms(o.mad_s)});
  return heading("calls more than 3 MAD from the median of the same op and module", p.outliers) +
         aligned(rows, "llrrrr");
}

static std::string gaps_text(const Profile& p) {
  std::vector<TableRow> rows = {
      {"cause", "in", "module", "count", "ms a step", "share", "longest", "step"}};
  for (const GapRow& g : top(p.gaps))
    rows.push_back({g.cause, fitting(g.range, 14), ending(g.path, 14), cat(g.count), ms(g.s),
                    percent(g.share), ms(g.longest_s), cat(g.longest_step)});
  const char* const what = p.timed == Timed::device
                               ? "gaps: the device runs nothing, and the compute thread is"
                               : "gaps: no op runs on the compute thread";
  return heading(what, p.gaps) + aligned(rows, "lllrrrrr") +
         fmt::format("For {} of the time, other work had the core of the compute thread.\n",
                     percent(p.waited_share));
}

static std::string threads_text(const Profile& p) {
  if (p.threads.empty()) return "";
  std::vector<TableRow> rows = {{"thread", "running", "runnable", "waiting"}};
  for (const ThreadRow& t : top(p.threads))
    rows.push_back({t.name, percent(t.running), percent(t.runnable), percent(t.waiting)});
  return heading("threads: running on a core, runnable without one, or waiting", p.threads) +
         aligned(rows, "lrrr");
}

static std::string memory_text(const Profile& p) {
  std::vector<TableRow> rows = {{"module", "held MiB", "tensors MiB", "MiB"}};
  for (const MemoryRow& m : top(p.memory))
    rows.push_back({ending(m.module, 40), mib(m.held), mib(m.tensors), mib(m.bytes())});
  rows.push_back({"all", "", "", mib(p.peak_bytes)});
  return heading(cat("memory at the peak, in step ", p.peak_step), p.memory) +
         aligned(rows, "lrrr");
}

static std::string work_text(const Profile& p) {
  if (p.work.bytes <= 0) return "";
  return fmt::format("a step: {:.3g} GFLOP and {:.3g} MB by its ops, {:.3g} FLOP per byte{}\n",
                     1e-9 * p.work.flop, 1e-6 * p.work.bytes, p.work.flop / p.work.bytes,
                     p.mfu > 0 ? ", MFU " + percent(p.mfu) : "");
}

std::string text_of(const Profile& p, const Ceilings& ceilings) {
  const std::string updates = count_of(p.updates, "update");
  return fmt::format("profile: {} from step {}, {} ms each\n", updates, p.first, ms(p.update_s)) +
         work_text(p) + "\n" + phases_text(p) + ops_text(p) + kinds_text(p, ceilings) +
         modules_text(p) + outliers_text(p) + gaps_text(p) + threads_text(p) + memory_text(p);
}

static Json json_of(const OpRow& row) {
  Json json = {{"op", row.key.op}, {"backward", row.key.backward}};
  if (!row.key.shapes.empty())
    json.update({{"shapes", row.key.shapes}, {"dtype", row.key.dtype}, {"layout", row.key.layout}});
  json.update(
      {{"calls", row.calls},
       {"s", row.s},
       {"mean_s", row.mean_s()},
       {"share", row.share},
       {"kernel", row.kernel()},
       {"flop", row.work.flop},
       {"bytes", row.work.bytes},
       {"of_ceiling", row.ceiling_s > 0 && row.s > 0 ? Json(row.ceiling_s / row.s) : Json()}});
  return json;
}

static Json json_of(const PhaseRow& row) {
  return {{"phase", row.name}, {"s", row.s}, {"share", row.share}, {"device_s", row.device_s}};
}

static Json json_of(const ModuleRow& row) {
  return {{"module", row.path},
          {"forward_s", row.forward_s},
          {"backward_s", row.backward_s},
          {"share", row.share}};
}

static Json json_of(const Outlier& o) {
  return {{"op", o.key.op},         {"backward", o.key.backward},
          {"shapes", o.key.shapes}, {"module", o.path},
          {"step", o.step},         {"s", o.s},
          {"median_s", o.median_s}, {"mad_s", o.mad_s}};
}

static Json json_of(const GapRow& g) {
  return {{"cause", g.cause},
          {"in", g.range},
          {"module", g.path},
          {"count", g.count},
          {"s", g.s},
          {"share", g.share},
          {"longest_s", g.longest_s},
          {"longest_step", g.longest_step}};
}

static Json json_of(const ThreadRow& t) {
  return {{"name", t.name},
          {"id", t.id},
          {"running", t.running},
          {"runnable", t.runnable},
          {"waiting", t.waiting}};
}

static Json json_of(const MemoryRow& m) {
  return {{"module", m.module}, {"held", m.held}, {"tensors", m.tensors}};
}

template <class Row> static Json list_of(const std::vector<Row>& rows) {
  Json list = Json::array();
  for (const Row& row : rows) list.push_back(json_of(row));
  return list;
}

Json json_of(const Profile& p, const Ceilings& c) {
  return {
      {"kind", "profile"},
      {"first_step", p.first},
      {"times", times_of(p)},
      {"updates", p.updates},
      {"update_s", p.update_s},
      {"batch_cost_s", p.batch_cost_s},
      {"flop", p.work.flop},
      {"bytes", p.work.bytes},
      {"mfu", p.mfu > 0 ? Json(p.mfu) : Json()},
      {"waited_for_core_share", p.waited_share},
      {"ceilings",
       {{"f32_flop_per_s", c.f32}, {"bf16_flop_per_s", c.bf16}, {"bytes_per_s", c.bytes_per_s}}},
      {"phases", list_of(p.phases)},
      {"ops", list_of(p.kinds)},
      {"ops_by_operands", list_of(p.ops)},
      {"modules", list_of(p.modules)},
      {"outliers", list_of(p.outliers)},
      {"gaps", list_of(p.gaps)},
      {"thread_states", list_of(p.threads)},
      {"typical_update", p.typical},
      {"memory",
       {{"peak_bytes", p.peak_bytes}, {"step", p.peak_step}, {"modules", list_of(p.memory)}}}};
}

}  // namespace bellows
