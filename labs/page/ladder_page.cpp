// Page of a report of `trainer ladder` (trainer/ab/ladder_report.cpp).
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "core/base/statistics.h"
#include "core/base/words.h"
#include "labs/page/arms.h"
#include "labs/page/charts.h"
#include "labs/page/html.h"
#include "labs/page/page.h"

namespace bellows {

static double middle(const Json& arm) {
  const std::vector<double> ms = wall_ms(arm);
  return ms.empty() ? NAN : median(ms);
}

static std::string name_of(const Json& step) {
  const std::string value = text_of(step, "value");
  return text_of(step, "toggle") + (value == "on" ? "" : "=" + value);
}

static std::string ratio_text(const Ratio& r) {
  return r.has_interval() ? fmt::format("{:.3f} × ({:.3f} to {:.3f})", r.ratio, r.low, r.high)
                          : fmt::format("{:.3f} ×", r.ratio);
}

static Tone tone_of(const Ratio& r) {
  return !r.differs ? Tone::quiet : r.ratio > 1 ? Tone::accent : Tone::other;
}

static std::string ladder_numbers(const Json& report) {
  const Json &plain = report.at("plain"), &steps = report.at("steps"),
             &last = steps.at(steps.empty() ? 0 : steps.size() - 1);
  return key_numbers(
      {ratio_number("all toggles over plain", last.at("speedup_over_plain")),
       {"time of a step", fmt::format("{:.4g} ms", middle(last)),
        fmt::format("from {:.4g} ms, medians", middle(plain))},
       {"toggles", std::to_string(steps.size()), "added one at a time"},
       ratio_number("placebo", report.at("placebo").at("speedup"), "plain against itself; "),
       {"processes", std::to_string(plain.at("processes").size()), "a side, taking turns"}});
}

static std::string waterfall(const Json& report) {
  std::vector<Bar> bars;
  double before = NAN;
  const auto add = [&](const Json& arm, const std::string& name, const std::string& ratio,
                       Tone tone) {
    const std::vector<double> ms = wall_ms(arm);
    Bar bar{name, fmt::format("{:.4g} ms", middle(arm)), middle(arm), tone};
    if (ms.size() > 1) bar.low = quantile(ms, 0.25), bar.high = quantile(ms, 0.75);
    bar.note = ratio;
    bar.before = before;
    before = bar.value;
    bars.push_back(bar);
  };
  add(report.at("plain"), "plain", "", Tone::quiet);
  for (const Json& step : report.at("steps")) {
    const Ratio r = ratio_of(step.at("speedup"));
    add(step, "+ " + name_of(step), ratio_text(r), tone_of(r));
  }
  return bar_chart("Time of a step, one toggle added at a time",
                   "median of the blocks, a line from quartile to quartile, and the ratio to the "
                   "step before with its interval; pale: what the toggle saved; in color: a "
                   "difference beyond the noise of the placebo",
                   bars);
}

static std::string left_out_one(const Json& report) {
  HtmlTable table{{"without", "ms a step", "all on is faster by", "interval"}, "lrrr"};
  for (const Json& arm : report.at("without")) {
    const Ratio r = ratio_of(arm.at("slowdown"));
    table.rows.push_back(
        {code(text_of(arm, "toggle")), fmt::format("{:.4g}", middle(arm)),
         fmt::format("{}{:.3f} ×{}", r.differs ? "<b>" : "", r.ratio, r.differs ? "</b>" : ""),
         r.has_interval() ? fmt::format("{:.3f} to {:.3f}", r.low, r.high) : "–"});
  }
  return "<p>All toggles against all but one. A toggle that another one covers seems worthless "
         "here, and one that others need takes them along.</p>\n" +
         html_of(table);
}

static std::string toggles(const Json& report) {
  Names ran, idle;
  HtmlTable table{{"toggle", "counter, per step", "before", "after"}, "llrr"};
  for (const Json& step : report.at("steps")) {
    (step.at("ran").get<bool>() ? ran : idle).push_back(name_of(step));
    for (const auto& [name, rates] : step.at("counters_per_step").items())
      table.rows.push_back({code(text_of(step, "toggle")), code(name), short_number(rates.at(0)),
                            short_number(rates.at(1))});
  }
  std::string html = names_list("Ran", "their footprints counted", ran) +
                     names_list("Not in its step", "another toggle may have replaced it", idle);
  for (const auto& [reason, names] : report.at("left_out").items())
    html += names_list("Left out", reason, names, true);
  return html + (table.rows.empty() ? "" : fold("Counters that changed", html_of(table)));
}

static Page ladder_page(const Json& report) {
  return {"Bellows · ladder", text_of(report, "config") + ", from plain to all",
          "Each step adds one toggle to the step before",
          ladder_numbers(report) +
              section("Steps", listed(report.at("busy"), "Busy machine: ") + waterfall(report)) +
              section("One toggle left out", left_out_one(report)) +
              section("Toggles", toggles(report)) + measurement(report)};
}

static const AddPage ladder_page_entry("ladder", ladder_page);

}  // namespace bellows
