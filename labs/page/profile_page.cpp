// Page of a report of `trainer profile --json` (labs/profile/report.cpp).
#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include "core/base/check.h"
#include "labs/page/arms.h"
#include "labs/page/charts.h"
#include "labs/page/html.h"
#include "labs/page/page.h"

namespace bellows {

static std::string in_ms(double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); }
static std::string share(double part) { return fmt::format("{:.1f} %", 100 * part); }
static std::string module_of(const Json& row) {
  const std::string path = text_of(row, "module");
  return path.empty() ? "–" : code(path);
}

static bool is_backward(const Json& op) { return op.value("backward", false); }
static std::string op_name(const Json& op) {
  return text_of(op, "op") + (is_backward(op) ? ", back" : "");
}

// Rows of a table, those after `most` folded.
static std::string table_of(HtmlTable table, size_t most, const std::string& what) {
  if (table.rows.size() <= most) return html_of(table);
  const std::string all = html_of(table);
  const size_t count = table.rows.size();
  table.rows.resize(most);
  return html_of(table) + fold(fmt::format("All {} {}", count, what), all);
}

static std::string profile_numbers(const Json& p) {
  const double s = number_of(p, "update_s"), updates = number_of(p, "updates"),
               batch = number_of(p, "batch"), flop = number_of(p, "flop");
  const Json& mfu = p.at("mfu");
  double computing = 0;
  for (const Json& op : p.at("ops")) computing += number_of(op, "share");
  const Json& memory = p.at("memory");
  std::vector<KeyNumber> boxes = {
      {"update", seconds_text(s), fmt::format("mean of {:.0f}, batch {:.0f}", updates, batch)},
      {"samples a second", short_number(batch / s), ""},
      {"in ops", share(computing), "of the time of an update"}};
  if (flop > 0)
    boxes.push_back({"GFLOP/s", short_number(1e-9 * flop / s),
                     fmt::format("{:.3g} FLOP per byte{}", flop / number_of(p, "bytes"),
                                 mfu.is_null() ? "" : ", MFU " + share(mfu.get<double>()))});
  boxes.push_back({"peak memory", bytes_text(number_of(memory, "peak_bytes")),
                   fmt::format("in step {:.0f}", number_of(memory, "step"))});
  return key_numbers(boxes);
}

// ---- an update

static std::string phases(const Json& p) {
  std::vector<Share> parts;
  const std::map<std::string, int> colors = {
      {"input wait", 4}, {"forward", 0}, {"backward", 1}, {"optimizer", 5}, {"clear_grad", 3}};
  for (const Json& row : p.at("phases")) {
    const auto color = colors.find(text_of(row, "phase"));
    parts.push_back({text_of(row, "phase"), number_of(row, "s"), seconds_text(number_of(row, "s")),
                     color == colors.end() ? 2 : color->second});
  }
  return share_bar("Phases", "mean of all updates of the window", parts);
}

static LaneSlice slice_of(const Json& row, Tone tone) {
  const double begin = 1e-6 * number_of(row, "begin_ns"), length = 1e-6 * number_of(row, "ns");
  const std::string name = text_of(row, "name") + (is_backward(row) ? ", back" : ""),
                    module = row.value("module", "");
  return {name,
          fmt::format("{}{}{}: {:.3f} ms", name, module.empty() ? "" : " in ", module, length),
          tone, begin, begin + length};
}

static std::string one_update(const Json& p) {
  const Json& update = p.at("typical_update");
  const bool on_device = p.value("times", "") == "time on the device";
  LanesChart chart{.title = "One update",
                   .note = fmt::format("step {:.0f}, of median length: {}, its gaps by cause, and "
                                       "memory in use",
                                       number_of(update, "step"),
                                       on_device ? "what the device ran" : "the compute thread"),
                   .ms = 1e3 * number_of(update, "s"),
                   .lanes = {{"phases", {}}, {"ops", {}}}};
  for (const Json& row : update.at("phases"))
    chart.lanes[0].slices.push_back(slice_of(row, Tone::quiet));
  const auto tone_of = [](const Json& row) {
    const std::string name = text_of(row, "name");
    if (name == "optimizer" || name == "zero_grad") return Tone::quiet;
    return is_backward(row) ? Tone::other : Tone::accent;
  };
  std::map<Tone, double> in_ops;
  for (const Json& row : update.at("ops")) {
    chart.lanes[1].slices.push_back(slice_of(row, tone_of(row)));
    in_ops[tone_of(row)] += 1e-9 * number_of(row, "ns");
  }
  std::map<std::string, Lane> gaps;
  std::map<std::string, double> in_gaps;
  for (const Json& row : update.at("gaps")) {
    const std::string cause = text_of(row, "name");
    gaps[cause].slices.push_back(slice_of(row, Tone::gap));
    in_gaps[cause] += 1e-9 * number_of(row, "ns");
  }
  for (const auto& [tone, name] : {std::pair(Tone::accent, "forward ops"),
                                   {Tone::other, "backward ops"},
                                   {Tone::quiet, "optimizer and clearing"}})
    if (in_ops[tone] > 0)
      chart.legend.emplace_back(tone, fmt::format("{} {}", name, seconds_text(in_ops[tone])));
  for (auto& [cause, lane] : gaps) {
    chart.lanes.push_back({cause + " gap", lane.slices});
    chart.legend.emplace_back(Tone::gap,
                              fmt::format("{} gaps {}", cause, seconds_text(in_gaps[cause])));
  }
  chart.unit = " MB";
  for (const Json& point : update.at("bytes_in_use")) {
    chart.below.x.push_back(1e-6 * point.at(0).get<double>());
    chart.below.y.push_back(1e-6 * point.at(1).get<double>());
  }
  return lanes_chart(chart);
}

// ---- ops

static std::string rate(double work, double s) {
  return work > 0 && s > 0 ? fmt::format("{:.1f}", 1e-9 * work / s) : "";
}

static std::vector<std::string> cells(const Json& op) {
  const double s = number_of(op, "s"), flop = number_of(op, "flop"), bytes = number_of(op, "bytes");
  const Json& ceiling = op.at("of_ceiling");
  return {code(op_name(op)),
          short_number(number_of(op, "calls")),
          in_ms(s),
          in_ms(number_of(op, "mean_s")),
          share(number_of(op, "share")),
          rate(flop, s),
          rate(bytes, s),
          flop > 0 && bytes > 0 ? fmt::format("{:.1f}", flop / bytes) : "",
          ceiling.is_null() ? "" : fmt::format("{:.0f} %", 100 * ceiling.get<double>())};
}

static std::string ops(const Json& p) {
  const Json& limits = p.at("ceilings");
  Roofline roof{.title = "Roofline",
                .note =
                    "GFLOP/s of each op over its FLOP per byte, and what this machine reaches; "
                    "orange forward, blue backward. Data in a cache and algorithms with fewer "
                    "products may exceed it",
                .bytes_per_s = number_of(limits, "bytes_per_s"),
                .ceilings = {},
                .points = {}};
  const bool low = std::ranges::any_of(
      p.at("ops_by_operands"), [](const Json& op) { return op.value("dtype", "f32") != "f32"; });
  for (const auto& [key, name] : {std::pair("f32_flop_per_s", "f32"), {"bf16_flop_per_s", "bf16"}})
    if (const double limit = number_of(limits, key);
        limit > 0 && (low || name == std::string("f32")))
      roof.ceilings.emplace_back(fmt::format("{} {:.0f} GFLOP/s", name, 1e-9 * limit), limit);
  HtmlTable kinds{
      {"op", "calls", "ms", "mean ms", "share", "GFLOP/s", "GB/s", "FLOP/B", "of ceiling"},
      "lrrrrrrrr"};
  for (const Json& op : p.at("ops")) {
    kinds.rows.push_back(cells(op));
    const double s = number_of(op, "s"), bytes = number_of(op, "bytes");
    if (s > 0 && bytes > 0)
      roof.points.push_back({text_of(op, "op"), is_backward(op) ? Tone::other : Tone::accent,
                             number_of(op, "flop") / bytes, number_of(op, "flop") / s});
  }
  HtmlTable operands = kinds;
  operands.columns.insert(operands.columns.begin() + 1, "operands");
  operands.sides = "llrrrrrrrr";
  operands.rows.clear();
  constexpr size_t kMost = 100;
  for (const Json& op : p.at("ops_by_operands")) {
    if (operands.rows.size() == kMost) break;
    std::vector<std::string> row = cells(op);
    const std::string layout = op.value("layout", "");
    row.insert(row.begin() + 1, escaped(op.value("shapes", "") + " " + op.value("dtype", "") +
                                        (layout.empty() ? "" : " " + layout)));
    operands.rows.push_back(row);
  }
  const size_t all = p.at("ops_by_operands").size();
  return table_of(kinds, 20, "ops") +
         fold(all > kMost ? fmt::format("By operands: {} of {}", kMost, all)
                          : fmt::format("By operands: {}", all),
              html_of(operands)) +
         roofline(roof);
}

static std::string modules(const Json& p) {
  HtmlTable table{{"module", "forward ms", "backward ms", "share"}, "lrrr"};
  for (const Json& row : p.at("modules"))
    table.rows.push_back({code(text_of(row, "module")), in_ms(number_of(row, "forward_s")),
                          in_ms(number_of(row, "backward_s")), share(number_of(row, "share"))});
  return table.rows.empty() ? "" : table_of(table, 12, "modules");
}

static std::string memory(const Json& p) {
  const Json& at_peak = p.at("memory");
  std::vector<Bar> bars;
  double rest = 0;
  size_t others = 0;
  HtmlTable table{{"module", "held before", "tensors", "both"}, "lrrr"};
  for (const Json& row : at_peak.at("modules")) {
    const double held = number_of(row, "held"), tensors = number_of(row, "tensors");
    table.rows.push_back({code(text_of(row, "module")), bytes_text(held), bytes_text(tensors),
                          bytes_text(held + tensors)});
    constexpr double kLeast = 0.01;  // of the peak
    if (bars.size() < 12 && held + tensors > kLeast * number_of(at_peak, "peak_bytes"))
      bars.push_back(
          {text_of(row, "module"), bytes_text(held + tensors), held + tensors, Tone::accent});
    else
      rest += held + tensors, ++others;
  }
  return bar_chart(
             "Memory at the peak",
             fmt::format("{} in step {:.0f}, by the module that took it{}",
                         bytes_text(number_of(at_peak, "peak_bytes")), number_of(at_peak, "step"),
                         others ? fmt::format("; {} others: {}", others, bytes_text(rest)) : ""),
             bars) +
         fold("Held from before the window, and tensors since", html_of(table));
}

static std::string gaps(const Json& p) {
  HtmlTable table{{"cause", "in", "module", "count", "ms an update", "share", "longest ms", "step"},
                  "lllrrrrr"};
  for (const Json& row : p.at("gaps"))
    table.rows.push_back({escaped(text_of(row, "cause")), code(text_of(row, "in")), module_of(row),
                          short_number(number_of(row, "count")), in_ms(number_of(row, "s")),
                          share(number_of(row, "share")), in_ms(number_of(row, "longest_s")),
                          fmt::format("{:.0f}", number_of(row, "longest_step"))});
  if (table.rows.empty()) return "";
  const bool on_device = p.value("times", "") == "time on the device";
  return cat("<p>", on_device ? "The device runs nothing" : "No op runs on the compute thread",
             ". For ") +
         share(number_of(p, "waited_for_core_share")) +
         " of the time, other work had the core of the compute thread.</p>\n" +
         table_of(table, 10, "gaps");
}

static std::string slow_calls(const Json& p) {
  HtmlTable table{{"op", "module", "step", "ms", "median ms", "MAD"}, "llrrrr"};
  constexpr size_t kMost = 200;
  for (const Json& row : p.at("outliers"))
    if (table.rows.size() < kMost)
      table.rows.push_back({code(op_name(row)), module_of(row),
                            fmt::format("{:.0f}", number_of(row, "step")),
                            in_ms(number_of(row, "s")), in_ms(number_of(row, "median_s")),
                            in_ms(number_of(row, "mad_s"))});
  if (table.rows.empty()) return "<p>None is further than 3 MAD from its median.</p>\n";
  return fmt::format(
             "<p>{} further than 3 median absolute deviations (MAD) from the median of "
             "calls with the same operands, the furthest first.</p>\n",
             p.at("outliers").size()) +
         table_of(table, 10, "calls");
}

static Page profile_page(const Json& p) {
  const double first = number_of(p, "first_step"), updates = number_of(p, "updates"),
               threads = number_of(p, "threads");
  std::string notes;
  for (const Json& line : p.at("run")) notes += escaped(line.get<std::string>()) + "\n";
  return {"Bellows · profile", text_of(p, "name"),
          fmt::format("Steps {:.0f} to {:.0f} · batch {:.0f} · {:.0f} thread{}", first,
                      first + updates - 1, number_of(p, "batch"), threads, threads == 1 ? "" : "s"),
          profile_numbers(p) + section("Where an update goes", phases(p) + one_update(p)) +
              section("Ops", ops(p)) + section("Modules", modules(p)) +
              section("Memory", memory(p)) + section("Gaps", gaps(p)) +
              section("Slow calls", slow_calls(p)) +
              section("The run", notes.empty() ? "" : "<pre>" + notes + "</pre>\n")};
}

static const AddPage profile_page_entry("profile", profile_page);

}  // namespace bellows
