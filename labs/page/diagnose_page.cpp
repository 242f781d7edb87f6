// Page of a report of `trainer diagnose --json` (labs/diagnose/diagnosis.cpp).
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "labs/page/arms.h"
#include "labs/page/charts.h"
#include "labs/page/html.h"
#include "labs/page/page.h"

namespace bellows {

static std::string diagnose_numbers(const Json& report) {
  const Json& findings = report.at("findings");
  std::vector<KeyNumber> boxes = {
      {"limit", escaped(text_of(report, "limit")),
       "an update takes " + seconds_text(number_of(report, "batch_cost"))}};
  if (report.contains("class"))
    boxes.push_back({"class", fmt::format("{} of 4", report["class"].get<int>()),
                     escaped(text_of(report, "class_name"))});
  if (!findings.empty())
    boxes.push_back({"largest possible gain",
                     fmt::format("{:.2f} ×", number_of(findings[0], "most_speedup")),
                     code(text_of(findings[0], "rule"))});
  if (const double used = number_of(report, "cores_used"); used >= 0)
    boxes.push_back(
        {"cores in use", fmt::format("{:.1f} of {:.0f}", used, number_of(report, "cores")),
         fmt::format("{:.1f} waited for", std::max(0.0, number_of(report, "waited_for_a_core")))});
  boxes.push_back({"updates", short_number(number_of(report, "updates")),
                   report.at("measured_here").get<bool>() ? "measured for this report"
                                                          : "from the log of the run"});
  return key_numbers(boxes);
}

static std::string share_of(double s, double whole) {
  return fmt::format("{}, {:.1f} %", seconds_text(s), 100 * s / whole);
}

static std::string time_of(const Json& report) {
  const double whole = number_of(report, "batch_cost"), input = number_of(report, "reader_cost"),
               between = number_of(report, "between_ops_s");
  std::vector<Bar> bars;
  double ops = 0;
  for (const Json& op : report.at("ops")) {
    const double s = number_of(op, "s");
    ops += s;
    if (bars.size() < 10) bars.push_back({text_of(op, "op"), share_of(s, whole), s});
  }
  std::vector<Share> parts = {{"input", input, seconds_text(input), 1}};
  if (ops > 0) {
    parts.push_back({"ops", ops, seconds_text(ops), 0});
    parts.push_back({"between ops", between, seconds_text(between), 4});
  }
  if (const double rest = whole - input - ops - (ops > 0 ? between : 0); rest > 1e-3 * whole)
    parts.push_back({ops > 0 ? "other" : "computing", rest, seconds_text(rest), ops > 0 ? 5 : 0});
  return share_bar("An update", "waiting for data, in ops, and between ops", parts) +
         bar_chart("Ops", "own time in an update, both passes", bars);
}

static std::string findings_of(const Json& report) {
  const Json& findings = report.at("findings");
  if (findings.empty()) return "<p>None: no rule fired.</p>\n";
  const double whole = number_of(report, "batch_cost");
  std::vector<Bar> bars;
  std::string list;
  for (const Json& finding : findings) {
    const std::string rule = text_of(finding, "rule");
    const double saves = number_of(finding, "saves_s");
    bars.push_back({rule,
                    saves > 0 ? fmt::format("{}, at most {:.2f} ×", share_of(saves, whole),
                                            number_of(finding, "most_speedup"))
                              : "not measured",
                    saves});
    list +=
        "<li><h3>" + escaped(rule) + "</h3>\n<p>" + escaped(text_of(finding, "text")) + "</p>\n";
    std::string lines;
    for (const Json& remedy : finding.at("remedies"))
      lines += (lines.empty() ? "" : "\n") + escaped(remedy.get<std::string>());
    if (!lines.empty()) list += "<pre>" + lines + "</pre>\n";
    if (const std::string advice = text_of(finding, "advice"); !advice.empty())
      list += "<p class=note>" + sentence(advice) + "</p>\n";
    list += "</li>\n";
  }
  return bar_chart("Largest possible gain",
                   "time of an update that the remedy could remove, and the speedup if it removed "
                   "all of it",
                   bars) +
         "<ol class=findings>\n" + list + "</ol>\n";
}

static std::string rates(const Json& report) {
  std::vector<std::pair<std::string, std::string>> rows;
  if (const double load = number_of(report, "load_s"); load > 0)
    rows.emplace_back("load, one worker", seconds_text(load));
  if (const double bytes = number_of(report, "batch_bytes"); bytes > 0)
    rows.emplace_back("batches", bytes_text(bytes / number_of(report, "batch_cost")) + "/s");
  if (const double disk = number_of(report, "disk_bytes_per_s"); disk >= 0)
    rows.emplace_back("disks", bytes_text(disk) + "/s");
  for (const auto& [key, name] : {std::pair("eval_share", "evaluation"), {"save_share", "saving"}})
    if (const double share = number_of(report, key); share > 0)
      rows.emplace_back(name, percent_text(share) + " of the run");
  return rows.empty() ? "" : facts(rows);
}

static Page diagnose_page(const Json& report) {
  std::string about = report.contains("class") ? text_of(report, "class_advice") : "";
  if (!about.empty()) about[0] = static_cast<char>(std::toupper(about[0]));
  return {"Bellows · diagnose", text_of(report, "name"), about,
          diagnose_numbers(report) + section("Where an update goes", time_of(report)) +
              section("Findings", findings_of(report)) +
              section("Toggles",
                      names_list("Off", "and able to run here", report.at("untried"), true)) +
              section("Rates", rates(report))};
}

static const AddPage diagnose_page_entry("diagnose", diagnose_page);

}  // namespace bellows
