#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include "core/base/words.h"
#include "labs/profile/analysis.h"
#include "trainer/state/run_record.h"
#include "trainer/verbs/tables.h"

namespace bellows {

static constexpr size_t kRows = 10;  // of a table

static std::string ms(const Json& s) { return fmt::format("{:.3f}", 1e3 * s.get<double>()); }
static std::string percent(const Json& share) {
  return fmt::format("{:.1f} %", 100 * share.get<double>());
}
static std::string mib(const Json& bytes) {
  return fmt::format("{:.2f}", bytes.get<double>() / (1 << 20));
}
static std::string fitting(const std::string& text, size_t columns) {
  return text.size() <= columns ? text : text.substr(0, columns - 3) + "...";
}
static std::string range(const Json& name) { return fitting(name, 14); }
// The end of a module's path tells more than its begin.
template <size_t columns> static std::string ending(const Json& path) {
  const std::string text = path;
  return text.size() <= columns ? text : "..." + text.substr(text.size() + 3 - columns);
}

namespace {
// A column of a table: its head, and how it shows a member of each row.
struct ReportColumn {
  const char* head;
  const char* key;
  std::string (*text)(const Json& value);
};
}  // namespace

static std::string heading(const std::string& what, const Json& rows) {
  const std::string all = rows.size() > kRows ? cat(", ", kRows, " of ", rows.size()) : "";
  return cat("\n", what, all, "\n");
}

static std::string table_of(const Json& rows, const char* sides,
                            const std::vector<ReportColumn>& columns) {
  std::vector<TableRow> table(1);
  for (const ReportColumn& column : columns) table[0].emplace_back(column.head);
  for (size_t i = 0; i < std::min(rows.size(), kRows); ++i) {
    table.emplace_back();
    for (const auto& [head, key, text] : columns) table.back().push_back(text(rows[i][key]));
  }
  return aligned(table, sides);
}

static std::string phases_text(const Json& report) {
  Json rows = report["phases"];
  double device_s = 0;
  for (const Json& row : rows) device_s += row["device_s"].get<double>();
  rows.push_back({{"phase", "batch_cost"},
                  {"s", report["batch_cost_s"]},
                  {"share", 1},
                  {"device_s", device_s}});
  std::vector<ReportColumn> columns = {
      {"phase", "phase", plain}, {"ms a step", "s", ms}, {"share", "share", percent}};
  if (report["times"] == "time on the device") columns.push_back({"device ms", "device_s", ms});
  return table_of(rows, "lrrr", columns);
}

// ---- ops

static std::string name_of(const Json& op) {
  return fitting(op["op"], 16) + (op["backward"] ? ", back" : "");
}

static std::string op_table(const Json& ops) {
  std::vector<TableRow> rows = {
      {"op", "calls", "ms", "mean ms", "share", "GFLOP/s", "GB/s", "peak"}};
  for (size_t i = 0; i < std::min(ops.size(), kRows); ++i) {
    const Json& op = ops[i];
    const double s = op["s"];
    const auto rate = [&](double work) {
      return work > 0 && s > 0 ? fmt::format("{:.1f}", 1e-9 * work / s) : "";
    };
    const Json& share = op["of_ceiling"];
    rows.push_back({name_of(op), plain(op["calls"]), fmt::format("{:.1f}", 1e3 * s),
                    ms(op["mean_s"]), percent(op["share"]), rate(op["flop"]), rate(op["bytes"]),
                    share.is_null() ? "" : fmt::format("{:.0f} %", 100 * share.get<double>())});
  }
  return aligned(rows, "lrrrrrrr");
}

// The kernels and operands of a key are in a line of their own, below its numbers.
static std::string operands_text(const Json& report) {
  const Json& ops = report["ops_by_operands"];
  std::istringstream table(op_table(ops));
  std::string text = heading("ops by operands, " + plain(report["times"]), ops), line;
  for (size_t i = 0; std::getline(table, line); ++i) {
    text += line + "\n";
    if (i == 0 || !ops[i - 1].contains("shapes")) continue;
    const Json& op = ops[i - 1];
    const std::string layout = op["layout"] == "" ? "" : " " + plain(op["layout"]);
    text += "  " +
            fitting(cat(plain(op["kernel"]), ", ", plain(op["dtype"]), layout, ": ",
                        plain(op["shapes"])),
                    78) +
            "\n";
  }
  return text;
}

static std::string kinds_text(const Json& report) {
  const Json &ops = report["ops"], &times = report["times"], &ceilings = report["ceilings"];
  std::string text = heading("ops, " + plain(times), ops) + op_table(ops);
  if (times == "time on the host") return text;  // without ceilings: they are the device's
  const auto giga = [&](const char* key) { return 1e-9 * ceilings[key].get<double>(); };
  text += fmt::format("peak: of {:.0f} GFLOP/s in f32", giga("f32_flop_per_s"));
  if (const double bf16 = giga("bf16_flop_per_s"); bf16 > 0)
    text += fmt::format(", {:.0f} in bf16", bf16);
  text += fmt::format(
      " or {:.1f} GB/s, as measured here\nnow. Data in a cache and algorithms with fewer products "
      "may exceed it.\n",
      giga("bytes_per_s"));
  for (const Json& op : ops)
    if (op["of_ceiling"] > 1 && plain(op["kernel"]).find("winograd") != std::string::npos)
      text += name_of(op) + " exceeds it by winograd, which needs fewer products.\n";
  return text;
}

// ---- the other tables

static std::string outliers_text(const Json& report) {
  Json calls = report["outliers"];
  if (calls.empty()) return "\nslow calls: none more than 3 MAD from their median\n";
  for (Json& call : calls) call["op"] = name_of(call);
  return heading("calls more than 3 MAD from the median of the same op and module", calls) +
         table_of(calls, "llrrrr",
                  {{"op", "op", plain},
                   {"module", "module", ending<16>},
                   {"step", "step", plain},
                   {"ms", "s", ms},
                   {"median ms", "median_s", ms},
                   {"MAD", "mad_s", ms}});
}

static std::string gaps_text(const Json& report) {
  const Json& gaps = report["gaps"];
  const char* const what = report["times"] == "time on the device"
                               ? "gaps: the device runs nothing, and the compute thread is"
                               : "gaps: no op runs on the compute thread";
  return heading(what, gaps) +
         table_of(gaps, "lllrrrrr",
                  {{"cause", "cause", plain},
                   {"in", "in", range},
                   {"module", "module", ending<14>},
                   {"count", "count", plain},
                   {"ms a step", "s", ms},
                   {"share", "share", percent},
                   {"longest", "longest_s", ms},
                   {"step", "longest_step", plain}}) +
         cat("For ", percent(report["waited_for_core_share"]),
             " of the time, other work had the core of the compute thread.\n");
}

static std::string memory_text(const Json& memory) {
  const Json& modules = memory["modules"];
  std::vector<TableRow> rows = {{"module", "held MiB", "tensors MiB", "MiB"}};
  for (size_t i = 0; i < std::min(modules.size(), kRows); ++i) {
    const Json &row = modules[i], &held = row["held"], &tensors = row["tensors"];
    rows.push_back({ending<40>(row["module"]), mib(held), mib(tensors),
                    mib(held.get<int64_t>() + tensors.get<int64_t>())});
  }
  rows.push_back({"all", "", "", mib(memory["peak_bytes"])});
  return heading("memory at the peak, in step " + plain(memory["step"]), modules) +
         aligned(rows, "lrrr");
}

static std::string work_text(const Json& report) {
  const double flop = report["flop"], bytes = report["bytes"];
  if (bytes <= 0) return "";
  return fmt::format("a step: {:.3g} GFLOP and {:.3g} MB by its ops, {:.3g} FLOP per byte{}\n",
                     1e-9 * flop, 1e-6 * bytes, flop / bytes,
                     report["mfu"].is_null() ? "" : ", MFU " + percent(report["mfu"]));
}

std::string text_of(const Json& report) {
  const Json &modules = report["modules"], &threads = report["thread_states"];
  std::string text =
      fmt::format("profile: {} from step {}, {} ms each\n", count_of(report["updates"], "update"),
                  plain(report["first_step"]), ms(report["update_s"])) +
      work_text(report) + "\n" + phases_text(report) + operands_text(report) + kinds_text(report) +
      heading(cat("modules, ", plain(report["times"]), " a step"), modules) +
      table_of(modules, "lrrr",
               {{"module", "module", ending<40>},
                {"forward ms", "forward_s", ms},
                {"backward ms", "backward_s", ms},
                {"share", "share", percent}}) +
      outliers_text(report) + gaps_text(report);
  if (!threads.empty())
    text += heading("threads: running on a core, runnable without one, or waiting", threads) +
            table_of(threads, "lrrr",
                     {{"thread", "name", plain},
                      {"running", "running", percent},
                      {"runnable", "runnable", percent},
                      {"waiting", "waiting", percent}});
  return text + memory_text(report["memory"]);
}

}  // namespace bellows
