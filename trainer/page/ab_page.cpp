// Page of a report of `trainer ab` (trainer/ab/report.cpp).
#include <fmt/format.h>
#include <cmath>
#include "core/base/check.h"
#include "core/base/plural.h"
#include "core/base/statistics.h"
#include "trainer/page/charts.h"
#include "trainer/page/html.h"
#include "trainer/page/page.h"

namespace bellows {

static std::vector<double> numbers(const Json& list) {
  std::vector<double> values;
  for (const Json& value : list) values.push_back(value.is_number() ? value.get<double>() : NAN);
  return values;
}

static std::string text_of(const Json& object, const char* key) {
  return object.at(key).get<std::string>();
}

namespace {
struct Ratio {
  double ratio, low, high, confidence;
};
}  // namespace

static Ratio ratio_of(const Json& arm) {
  const Json& s = arm.at("speedup");
  const std::vector<double> interval = numbers(s.at("interval"));
  return {s.at("ratio"), interval.at(0), interval.at(1), s.at("confidence")};
}

static std::string interval_text(const Ratio& r) {
  if (!std::isfinite(r.high) || r.low <= 0) return "no interval from one process a side";
  return fmt::format("{:.4g} % interval {:.3f} to {:.3f}", 100 * r.confidence, r.low, r.high);
}

// Seconds of each block, by process.
static std::vector<std::vector<double>> costs(const Json& report, const Json& arm, double factor) {
  std::vector<std::vector<double>> lanes;
  for (const Json& process : arm.at("processes")) {
    const std::string start = text_of(report, "clock") + "_s_per_";
    const auto found = process.contains(start + "step") ? start + "step" : start + "run";
    lanes.push_back(numbers(process.at(found)));
    for (double& value : lanes.back()) value *= factor;
  }
  return lanes;
}

static std::vector<double> all_of(const std::vector<std::vector<double>>& lanes) {
  std::vector<double> all;
  for (const auto& lane : lanes) all.insert(all.end(), lane.begin(), lane.end());
  return all;
}

static double largest(const Json& arm, const char* key) {
  double most = 0;
  for (const Json& process : arm.at("processes"))
    most = std::max(most, process.at(key).get<double>());
  return most;
}

static std::string median_ms(const Json& report, const Json& arm) {
  const std::vector<double> ms = all_of(costs(report, arm, 1e3));
  return ms.empty() ? "–"
                    : fmt::format("{:.4g} ms ({:.4g} to {:.4g})", median(ms), quantile(ms, 0.25),
                                  quantile(ms, 0.75));
}

static bool per_run(const Json& report) {
  return !report.at("off").at("processes").at(0).contains("wall_s_per_step");
}

// ---- sections

static std::string verdicts(const Json& report) {
  std::vector<KeyNumber> boxes;
  const bool several = report.at("on").size() > 1;
  for (const Json& on : report.at("on")) {
    const Ratio r = ratio_of(on);
    boxes.push_back({escaped(several ? text_of(on, "name") : text_of(on, "answer")),
                     fmt::format("{:.3f} ×", r.ratio),
                     (several ? escaped(text_of(on, "answer")) + "; " : "") + interval_text(r)});
  }
  const Ratio placebo = ratio_of(report.at("placebo"));
  boxes.push_back({"placebo", fmt::format("{:.3f} ×", placebo.ratio),
                   "two equal arms; " + interval_text(placebo)});
  for (const Json& on : report.at("on"))
    boxes.push_back({several ? "losses, " + escaped(text_of(on, "name")) : "losses",
                     on.at("losses_hold").get<bool>() ? "hold" : "<span class=bad>FAILED</span>",
                     on.contains("footprint_holds") ? on["footprint_holds"].get<bool>()
                                                          ? "and the toggle ran in one arm only"
                                                          : "<span class=bad>footprint "
                                                            "FAILED</span>"
                                                    : ""});
  boxes.push_back({"processes", std::to_string(report.at("off").at("processes").size()),
                   "a side, taking turns"});
  return key_numbers(boxes);
}

static std::string speed(const Json& report) {
  const Ratio placebo = ratio_of(report.at("placebo"));
  const double noise = std::max({placebo.ratio, 1 / placebo.ratio, 1.01});
  std::vector<RatioRow> ratios;
  std::vector<Strip> strips;
  const auto row = [&](const Json& arm, const std::string& name, Tone tone) {
    const Ratio r = ratio_of(arm);
    ratios.push_back({name, fmt::format("{:.3f} × ({})", r.ratio, interval_text(r)), tone, r.ratio,
                      r.low, r.high});
  };
  const auto strip = [&](const Json& arm, const std::string& name, Tone tone) {
    strips.push_back({name, median_ms(report, arm), tone, costs(report, arm, 1e3)});
  };
  for (const Json& on : report.at("on")) row(on, text_of(on, "name"), Tone::accent);
  row(report.at("placebo"), "placebo", Tone::quiet);
  strip(report.at("off"), text_of(report.at("off"), "name"), Tone::other);
  strip(report.at("placebo"), text_of(report.at("placebo"), "name") + " (placebo)", Tone::quiet);
  for (const Json& on : report.at("on")) strip(on, text_of(on, "name"), Tone::accent);
  const std::string clock = text_of(report, "clock") == "cpu" ? "CPU time" : "time";
  const std::string unit = per_run(report) ? " of a run" : " of a step";
  return grid(ratio_chart("Speedup",
                          "over " + text_of(report.at("off"), "name") +
                              ", and its interval; shaded: noise of the placebo",
                          noise, ratios) +
              strip_chart("Times",
                          cat(clock, unit,
                              " in each block, a row for each process; a line at the "
                              "median"),
                          "ms", strips));
}

// Steps from 1 on; zeros, which a logarithmic axis lacks, are left out.
static Series by_step(const std::string& name, Tone tone, const Json& values) {
  Series s{name, tone, {}, numbers(values)};
  for (size_t i = 0; i < s.y.size(); ++i) s.x.push_back(static_cast<double>(i + 1));
  return s;
}

static std::string loss_charts(const Json& report, const Json& on) {
  const Json& apart = on.at("losses_apart");
  LineChart distance{.title = "Distance of the losses",
                     .note =
                         "largest so far; rounding: of arms whose first weights differ by one "
                         "unit in the last place",
                     .series = {by_step("rounding", Tone::quiet, apart.at("placebo")),
                                by_step("arms", Tone::accent, apart.at("arms"))},
                     .y_axis = YAxis::log};
  if (const auto allowed = apart.find("allowed"); allowed != apart.end())
    distance.series.push_back(by_step("allowed", Tone::other, *allowed));
  const std::string losses =
      line_chart({.title = "Loss",
                  .note = "of each step, first process of each arm",
                  .series = {by_step("off", Tone::other, report.at("off").at("loss_by_step")),
                             by_step("on", Tone::accent, on.at("loss_by_step"))}});
  const std::string charts = losses + line_chart(distance);
  return charts.empty() ? "" : grid(charts);
}

static std::string counters(const Json& report, const Json& on) {
  HtmlTable table{{"counter, per step", escaped(text_of(report.at("off"), "name")),
                   escaped(text_of(on, "name"))},
                  "lrr"};
  for (const auto& [name, rates] : on.at("counters_per_step").items())
    table.rows.push_back({"<code>" + escaped(name) + "</code>",
                          short_number(rates.at(0).get<double>()),
                          short_number(rates.at(1).get<double>())});
  return table.rows.empty() ? "<p>No counter differs.</p>\n" : html_of(table);
}

static std::string about_arm(const Json& report, const Json& on) {
  const auto finding = [&](const char* key, const char* good) {
    const bool holds = on.at(good).get<bool>();
    return fmt::format("<p>{}{}</p>\n", holds ? "" : "<span class=bad>FAILED</span> ",
                       sentence(text_of(on, key)));
  };
  const bool several = report.at("on").size() > 1;
  const std::string of = several ? ": " + escaped(text_of(on, "name")) : "";
  return section("Losses" + of, finding("losses", "losses_hold") + loss_charts(report, on)) +
         section("Counters" + of,
                 (on.contains("footprint") ? finding("footprint", "footprint_holds") : "") +
                     counters(report, on));
}

static std::string arms(const Json& report) {
  HtmlTable table{{"arm", "time: median (quartiles)", "peak of tensors", "peak of the process"},
                  "lrrr"};
  const auto add = [&](const Json& arm, const char* note) {
    table.rows.push_back({escaped(text_of(arm, "name") + note), median_ms(report, arm),
                          bytes_text(largest(arm, "peak_tensor_bytes")),
                          bytes_text(largest(arm, "peak_resident_bytes"))});
  };
  add(report.at("off"), "");
  add(report.at("placebo"), " (placebo)");
  for (const Json& on : report.at("on")) add(on, "");
  return html_of(table);
}

static std::string listed(const Json& texts, const char* before) {
  Names all;
  for (const Json& text : texts) all.push_back(text);
  return all.empty() ? "" : fmt::format("<p>{}{}</p>\n", before, escaped(joined(all)));
}

static Page ab_page(const Json& report) {
  std::string title = text_of(report.at("off"), "name") + " against ", body = verdicts(report);
  for (const Json& on : report.at("on"))
    title += (&on == &report["on"][0] ? "" : ", ") + text_of(on, "name");
  body += section("Speed", listed(report.at("busy"), "Busy machine: ") + speed(report));
  for (const Json& on : report.at("on")) body += about_arm(report, on);
  body += section("Arms", listed(report.at("differences"), "Differences: ") +
                              listed(report.at("held"), "Off in all arms: ") + arms(report));
  body += section("Measurement", "<pre>" + escaped(text_of(report, "command")) + "</pre>\n" +
                                     facts_of(report.at("machine")));
  const std::string claim = text_of(report, "claim");
  return {"Bellows · ab", title, claim.empty() ? "" : "Claim: " + claim, body};
}

static const AddPage page({"ab", ab_page});

}  // namespace bellows
