// Page of a report of `trainer ab` (trainer/ab/report.cpp).
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "core/base/check.h"
#include "labs/page/arms.h"
#include "labs/page/charts.h"
#include "labs/page/html.h"
#include "labs/page/page.h"

namespace bellows {

static Lanes costs(const Json& report, const Json& arm) {
  return costs_ms(arm, text_of(report, "clock"));
}

static double largest(const Json& arm, const char* key) {
  double most = 0;
  for (const Json& process : arm.at("processes"))
    most = std::max(most, process.at(key).get<double>());
  return most;
}

static std::string median_ms(const Json& report, const Json& arm) {
  return quartiles_text(all_of(costs(report, arm)));
}

// ---- sections

static std::string verdicts(const Json& report) {
  std::vector<KeyNumber> boxes;
  const bool several = report.at("on").size() > 1;
  for (const Json& on : report.at("on"))
    boxes.push_back(ratio_number(escaped(text_of(on, several ? "name" : "answer")),
                                 on.at("speedup"),
                                 several ? escaped(text_of(on, "answer")) + "; " : ""));
  boxes.push_back(ratio_number("placebo", report.at("placebo").at("speedup"), "two equal arms; "));
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

static std::string speed_of_arms(const Json& report) {
  const double noise = noise_of(report);
  std::vector<RatioRow> ratios;
  std::vector<Strip> strips;
  const auto row = [&](const Json& arm, const std::string& name, Tone tone) {
    const Ratio r = ratio_of(arm.at("speedup"));
    ratios.push_back({name, fmt::format("{:.3f} × ({})", r.ratio, interval_text(r)), tone, r.ratio,
                      r.low, r.high});
  };
  const auto strip = [&](const Json& arm, const std::string& name, Tone tone) {
    strips.push_back({name, median_ms(report, arm), tone, costs(report, arm)});
  };
  for (const Json& on : report.at("on")) row(on, text_of(on, "name"), Tone::accent);
  row(report.at("placebo"), "placebo", Tone::quiet);
  strip(report.at("off"), text_of(report.at("off"), "name"), Tone::other);
  strip(report.at("placebo"), text_of(report.at("placebo"), "name") + " (placebo)", Tone::quiet);
  for (const Json& on : report.at("on")) strip(on, text_of(on, "name"), Tone::accent);
  const std::string clock = text_of(report, "clock") == "cpu" ? "CPU time" : "time";
  const bool per_step = report.at("off").at("processes").at(0).contains("wall_s_per_step");
  const std::string unit = per_step ? " of a step" : " of a run";
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
  for (size_t i = 0; i < s.y.size(); ++i) s.x.push_back(double(i + 1));
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
  return grid(losses + line_chart(distance));
}

static std::string counters(const Json& report, const Json& on) {
  HtmlTable table{{"counter, per step", escaped(text_of(report.at("off"), "name")),
                   escaped(text_of(on, "name"))},
                  "lrr"};
  for (const auto& [name, rates] : on.at("counters_per_step").items())
    table.rows.push_back({code(name), short_number(rates.at(0)), short_number(rates.at(1))});
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
  const std::string evaluations =
      on.contains("evaluations") ? finding("evaluations", "evaluations_hold") : "";
  return section("Losses" + of,
                 finding("losses", "losses_hold") + evaluations + loss_charts(report, on)) +
         section("Counters" + of,
                 (on.contains("footprint") ? finding("footprint", "footprint_holds") : "") +
                     counters(report, on));
}

static std::string arms(const Json& report) {
  HtmlTable table{{"arm", "time: median (quartiles)", "peak of tensors", "peak of the process"},
                  "lrrr"};
  bool metered = !energies_j(report.at("off")).empty();
  for (const Json& on : report.at("on")) metered |= !energies_j(on).empty();
  if (metered) table.columns.emplace_back("energy of the GPU"), table.sides = "lrrrr";
  const auto add = [&](const Json& arm, const char* note) {
    table.rows.push_back({escaped(text_of(arm, "name") + note), median_ms(report, arm),
                          bytes_text(largest(arm, "peak_tensor_bytes")),
                          bytes_text(largest(arm, "peak_resident_bytes"))});
    if (metered) table.rows.back().push_back(quartiles_text(energies_j(arm), "J"));
  };
  add(report.at("off"), "");
  add(report.at("placebo"), " (placebo)");
  for (const Json& on : report.at("on")) add(on, "");
  return html_of(table);
}

static Page ab_page(const Json& report) {
  std::string title = text_of(report.at("off"), "name") + " against ", body = verdicts(report);
  for (const Json& on : report.at("on"))
    title += (&on == &report["on"][0] ? "" : ", ") + text_of(on, "name");
  body += section("Speed", listed(report.at("busy"), "Busy machine: ") + speed_of_arms(report));
  for (const Json& on : report.at("on")) body += about_arm(report, on);
  body += section("Arms", listed(report.at("differences"), "Differences: ") +
                              listed(report.at("held"), "Off in all arms: ") + arms(report));
  body += measurement(report);
  const std::string claim = text_of(report, "claim");
  return {"Bellows · ab", title, claim.empty() ? "" : "Claim: " + claim, body};
}

static const AddPage ab_page_entry("ab", ab_page);

}  // namespace bellows
