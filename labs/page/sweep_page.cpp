// Page of a report of `trainer sweep` (trainer/ab/sweep_report.cpp).
#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include "core/base/statistics.h"
#include "core/base/words.h"
#include "data/loader/loader_law.h"
#include "labs/page/arms.h"
#include "labs/page/charts.h"
#include "labs/page/html.h"
#include "labs/page/page.h"

namespace bellows {

static std::string short_key(const std::string& key) { return key.substr(key.rfind('.') + 1); }

static double parsed(const std::string& text) {
  double value = NAN;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : NAN;
}

namespace {
struct Key {
  std::string name;
  Names values;
};
}  // namespace

static std::vector<Key> keys_of(const Json& report) {
  std::vector<Key> keys;
  for (const auto& [key, values] : report.at("keys").items())
    keys.push_back({key, values.get<Names>()});
  return keys;
}

static std::string sweep_numbers(const Json& report) {
  const Json& arms = report.at("arms");
  const auto by = [](const char* key) {
    return [key](const Json& a, const Json& b) { return number_of(a, key) < number_of(b, key); };
  };
  const Json& fastest = arms.empty() ? arms.at(0) : *std::ranges::max_element(arms, by("ips"));
  std::vector<KeyNumber> boxes = {{"most samples a second", short_number(number_of(fastest, "ips")),
                                   escaped(text_of(fastest, "name"))},
                                  ratio_number("over the first", fastest.at("speedup_over_first"))};
  for (const Json& law : report.at("laws"))
    boxes.push_back({"knee", count_of(law.at("knee").get<int64_t>(), "worker"),
                     fmt::format("loading takes {} a batch, computing {}",
                                 seconds_text(number_of(law, "load_s")),
                                 seconds_text(number_of(law, "compute_s")))});
  boxes.push_back(
      ratio_number("placebo", report.at("placebo").at("speedup"), "the first against itself; "));
  boxes.push_back({"processes", std::to_string(report.at("placebo").at("processes").size()),
                   "an arm, taking turns"});
  if (boxes.size() > 6) boxes.resize(6);
  return key_numbers(boxes);
}

static double predicted_ms(const Json& law, double workers) {
  const LoaderLaw fitted{number_of(law, "load_s"), number_of(law, "compute_s")};
  return 1e3 * fitted.batch_cost(int64_t(workers));
}

static std::string lines(const Json& report, const Key& key) {
  LineChart cost{.title = "Time of a step",
                 .note = "batch_cost: median of the blocks, and from quartile to quartile",
                 .unit = " ms",
                 .x_name = short_key(key.name),
                 .y_axis = YAxis::from_zero},
      speed{.title = "Samples a second",
            .note = "from the median of the blocks",
            .x_name = short_key(key.name),
            .y_axis = YAxis::from_zero};
  Series measured{"measured"}, ips{"ips"}, predicted{"predicted", Tone::other};
  std::vector<const Json*> arms;
  for (const Json& arm : report.at("arms")) arms.push_back(&arm);
  const auto value = [](const Json* arm) {
    return parsed(arm->at("values").at(0).get<std::string>());
  };
  std::ranges::stable_sort(arms, {}, value);
  for (const Json* arm : arms) {
    const double x = value(arm);
    const std::vector<double> ms = wall_ms(*arm);
    measured.x.push_back(x), measured.y.push_back(1e3 * number_of(*arm, "batch_cost"));
    ips.x.push_back(x), ips.y.push_back(number_of(*arm, "ips"));
    if (ms.size() > 1) cost.intervals.push_back({x, quantile(ms, 0.25), quantile(ms, 0.75)});
  }
  if (const Json& laws = report.at("laws"); laws.size() == 1) {
    for (const double x : measured.x)
      predicted.x.push_back(x), predicted.y.push_back(predicted_ms(laws[0], x));
    cost.series = {predicted};
    cost.mark = number_of(laws[0], "knee");
    cost.mark_name = "knee";
    cost.note += fmt::format("; blue: the law max(C, L / W), whose knee is at {:.0f}", cost.mark);
  }
  cost.series.push_back(measured);
  speed.series = {ips};
  return line_chart(cost) + line_chart(speed);
}

static std::string bars(const Json& report) {
  std::vector<Bar> cost, speed;
  for (const Json& arm : report.at("arms")) {
    const std::vector<double> ms = wall_ms(arm);
    const std::string name = text_of(arm, "name");
    Bar bar{name, quartiles_text(ms), 1e3 * number_of(arm, "batch_cost")};
    if (ms.size() > 1) bar.low = quantile(ms, 0.25), bar.high = quantile(ms, 0.75);
    cost.push_back(bar);
    speed.push_back({name, short_number(number_of(arm, "ips")), number_of(arm, "ips")});
  }
  return bar_chart("Time of a step", "median of the blocks, with quartiles", cost) +
         bar_chart("Samples a second", "from the median of the blocks", speed);
}

static std::string maps(const Json& report, const std::vector<Key>& keys) {
  std::string html;
  for (const auto& [field, title, factor] :
       {std::tuple("ips", "Samples a second", 1.0), {"batch_cost", "Time of a step, ms", 1e3}}) {
    HeatMap map{
        short_key(keys[0].name), short_key(keys[1].name), keys[0].values, keys[1].values, {}};
    map.values.assign(keys[0].values.size(), std::vector<double>(keys[1].values.size(), NAN));
    for (const Json& arm : report.at("arms"))
      for (size_t r = 0; r < map.rows.size(); ++r)
        for (size_t c = 0; c < map.columns.size(); ++c)
          if (arm.at("values") == Json::array({map.rows[r], map.columns[c]}))
            map.values[r][c] = factor * number_of(arm, field);
    html += heat_table(title, "median of the blocks; the larger, the darker", map);
  }
  return grid(html);
}

static std::string figures(const Json& report) {
  const std::vector<Key> keys = keys_of(report);
  const size_t arms = report.at("arms").size();
  if (keys.size() == 2 && keys[0].values.size() * keys[1].values.size() == arms && arms < 10'000)
    return maps(report, keys);
  const bool numeric =
      keys.size() == 1 && keys[0].values.size() > 1 &&
      std::ranges::none_of(keys[0].values, [](const auto& v) { return std::isnan(parsed(v)); });
  return numeric ? grid(lines(report, keys[0])) : grid(bars(report));
}

static std::string arms_table(const Json& report) {
  HtmlTable table{{"arm", "ms a step", "quartiles", "waiting ms", "samples/s", "over the first",
                   "tensors", "CPU %", "ms between epochs"},
                  "lrrrrrrrr"};
  for (const Json& arm : report.at("arms")) {
    const Ratio r = ratio_of(arm.at("speedup_over_first"));
    const std::vector<double> ms = wall_ms(arm);
    table.rows.push_back(
        {escaped(text_of(arm, "name")), fmt::format("{:.4g}", 1e3 * number_of(arm, "batch_cost")),
         ms.empty() ? "–" : fmt::format("{:.4g} to {:.4g}", quantile(ms, 0.25), quantile(ms, 0.75)),
         fmt::format("{:.4g}", 1e3 * number_of(arm, "reader_cost")),
         short_number(number_of(arm, "ips")),
         r.has_interval() ? fmt::format("{:.3f} ({:.3f} to {:.3f})", r.ratio, r.low, r.high)
                          : fmt::format("{:.3f}", r.ratio),
         bytes_text(number_of(arm, "peak_tensor_bytes")),
         fmt::format("{:.0f}", 100 * number_of(arm, "cpu_share")),
         arm.contains("epoch_gap_s") ? fmt::format("{:.4g}", 1e3 * number_of(arm, "epoch_gap_s"))
                                     : "–"});
  }
  return html_of(table);
}

// The law of loader workers against what was measured.
static std::string law_table(const Json& report) {
  HtmlTable table{{"arm", "predicted ms", "measured ms", "ratio"}, "lrrr"};
  for (const Json& law : report.at("laws"))
    for (const Json& index : law.at("arms")) {
      const Json& arm = report.at("arms").at(index.get<size_t>());
      const double predicted = predicted_ms(law, number_of(arm, "workers")),
                   measured = 1e3 * number_of(arm, "batch_cost");
      table.rows.push_back(
          {escaped(text_of(arm, "name")) +
               (number_of(arm, "workers") == number_of(law, "knee") ? " (knee)" : ""),
           fmt::format("{:.4g}", predicted), fmt::format("{:.4g}", measured),
           fmt::format("{:.3f}", measured / predicted)});
    }
  return table.rows.empty() ? "" : html_of(table);
}

static std::string losses_table(const Json& report) {
  HtmlTable table{{"arm", "at equal samples", "at equal updates", "at equal time", "FLOP per byte"},
                  "lrrrr"};
  for (const Json& arm : report.at("arms")) {
    if (!arm.contains("loss_at_equal_samples")) return "";
    const auto loss = [&](const char* key) {
      return arm.contains(key) && arm.at(key).is_number()
                 ? fmt::format("{:.4f}", number_of(arm, key))
                 : "–";
    };
    table.rows.push_back({escaped(text_of(arm, "name")), loss("loss_at_equal_samples"),
                          loss("loss_at_equal_updates"), loss("loss_at_equal_time"),
                          arm.contains("flop") ? fmt::format("{:.2f}", number_of(arm, "flop") /
                                                                           number_of(arm, "bytes"))
                                               : "–"});
  }
  return html_of(table);
}

static Page sweep_page(const Json& report) {
  Names names;
  for (const Key& key : keys_of(report)) names.push_back(short_key(key.name));
  return {"Bellows · sweep", joined(names), text_of(report, "config"),
          sweep_numbers(report) +
              section("Speed", listed(report.at("busy"), "Busy machine: ") + figures(report)) +
              section("Arms", arms_table(report)) +
              section("The law of loader workers", law_table(report)) +
              section("Losses", losses_table(report)) + measurement(report)};
}

static const AddPage sweep_page_entry("sweep", sweep_page);

}  // namespace bellows
