#include "labs/page/arms.h"
#include <fmt/format.h>
#include <cmath>
#include <nlohmann/json.hpp>
#include "core/base/statistics.h"
#include "core/base/words.h"
#include "labs/page/html.h"
#include "trainer/state/run_record.h"

namespace bellows {

std::string text_of(const Json& object, const char* key) {
  return object.at(key).get<std::string>();
}
double number_of(const Json& object, const char* key) { return object.at(key).get<double>(); }

std::vector<double> numbers(const Json& list) {
  std::vector<double> values;
  for (const Json& value : list) values.push_back(value.is_number() ? value.get<double>() : NAN);
  return values;
}

bool Ratio::has_interval() const { return std::isfinite(high) && low > 0; }

Ratio ratio_of(const Json& speedup) {
  const Json& interval = speedup.at("interval");
  const std::vector<double> ends = numbers({interval.at(0), interval.at(1)});
  return {speedup.at("ratio"), ends[0], ends[1], speedup.at("confidence"), speedup.at("differs")};
}

std::string interval_text(const Ratio& r) {
  if (!r.has_interval()) return "no interval from one process a side";
  return fmt::format("{:.4g} % interval {:.3f} to {:.3f}", 100 * r.confidence, r.low, r.high);
}

KeyNumber ratio_number(const std::string& name, const Json& speedup, const std::string& note) {
  const Ratio r = ratio_of(speedup);
  return {name, fmt::format("{:.3f} ×", r.ratio), note + interval_text(r)};
}

double noise_of(const Json& report) {
  return noise_of(Speedup{.ratio = ratio_of(report.at("placebo").at("speedup")).ratio});
}

Lanes costs_ms(const Json& arm, const std::string& clock) {
  Lanes lanes;
  for (const Json& process : arm.at("processes")) {
    const std::string of_step = clock + "_s_per_step";
    lanes.push_back(
        finite(numbers(process.at(process.contains(of_step) ? of_step : clock + "_s_per_run"))));
    for (double& value : lanes.back()) value *= 1e3;
  }
  return lanes;
}

std::vector<double> all_of(const Lanes& lanes) {
  std::vector<double> all;
  for (const auto& lane : lanes) all.insert(all.end(), lane.begin(), lane.end());
  return all;
}

std::vector<double> wall_ms(const Json& arm) { return all_of(costs_ms(arm, "wall")); }

std::string quartiles_text(const std::vector<double>& values, const char* unit) {
  return values.empty() ? "–"
                        : fmt::format("{:.4g} {} ({:.4g} to {:.4g})", median(values), unit,
                                      quantile(values, 0.25), quantile(values, 0.75));
}

std::vector<double> energies_j(const Json& arm) {
  Lanes lanes;
  for (const Json& process : arm.at("processes"))
    for (const char* key : {"gpu_j_per_step", "gpu_j_per_run"})
      if (process.contains(key)) lanes.push_back(finite(numbers(process.at(key))));
  return all_of(lanes);
}

std::string listed(const Json& texts, const char* before) {
  Names all;
  for (const Json& text : texts) all.push_back(text);
  return all.empty() ? "" : fmt::format("<p>{}{}</p>\n", before, escaped(joined(all)));
}

std::string measurement(const Json& report) {
  return section("Measurement", "<pre>" + escaped(text_of(report, "command")) + "</pre>\n" +
                                    facts_of(report.at("machine")));
}

}  // namespace bellows
