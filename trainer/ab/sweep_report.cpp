// Results of `trainer sweep` as Markdown that is readable unrendered, and as JSON.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <functional>
#include "core/base/output.h"
#include "core/base/utf8.h"
#include "core/base/words.h"
#include "data/loader/loader.h"
#include "plan/toggle.h"
#include "trainer/ab/arm_report.h"
#include "trainer/ab/sweep.h"
#include "trainer/verbs/step_work.h"

namespace bellows {

// Returns the medians over the blocks of all processes, in seconds per step.
static double batch_cost(const AbArm& arm) { return median(costs(arm, {}, &AbBlock::wall_s)); }
static double reader_cost(const AbArm& arm) { return median(costs(arm, {}, &AbBlock::reader_s)); }

static std::vector<double> epoch_gaps(const AbArm& arm) {
  std::vector<double> gaps;
  for (const AbProcess& process : arm.processes)
    for (const AbBlock& block : process.blocks)
      gaps.insert(gaps.end(), block.epoch_gaps_s.begin(), block.epoch_gaps_s.end());
  return gaps;
}

// Returns the mean number of samples per update: an epoch's last batch may be smaller.
static double batch_of(const AbArm& arm) {
  double samples = 0, updates = 0;
  for (const AbProcess& process : arm.processes) {
    samples += double(process.end.samples);
    updates += double(process.end.losses.size());
  }
  return samples / updates;
}

static double samples_per_s(const AbArm& arm) { return batch_of(arm) / batch_cost(arm); }

Speedup speedup_over_first(const SweepResult& result, const AbArm& arm) {
  Speedup s = speedup(result, arm);
  const double samples = batch_of(arm) / batch_of(result.arms.front());
  s.ratio *= samples;
  s.interval.low *= samples;
  s.interval.high *= samples;
  return s;
}

static bool vary(const SweepResult& result, int64_t SweepFacts::*fact) {
  return std::ranges::any_of(result.facts, [&](const SweepFacts& facts) {
    return facts.*fact != result.facts.front().*fact;
  });
}

static bool models_vary(const SweepResult& result) {
  return std::ranges::any_of(result.keys,
                             [](const SweepKey& key) { return key.key.starts_with("model"); });
}

void record_work(SweepResult& result) {
  for (size_t i = 0; i < result.arms.size(); ++i)
    result.facts[i].pixels = result.arms[i].processes.front().end.pixels;
  if (!vary(result, &SweepFacts::batch) && !vary(result, &SweepFacts::pixels) &&
      !models_vary(result))
    return;
  for (size_t i = 0; i < result.arms.size(); ++i) {
    try {
      const Config config = load_config(result.arms[i], result.options.overrides);
      result.facts[i].work = work_of_step(config.plan);
    } catch (const Error& error) {
      warn(cat("sweep: ", result.arms[i].name, ": no FLOP per byte: ", error.what()));
    }
  }
}

namespace {
// Samples that all arms have seen, updates that all arms have made, and the time that all arms have
// trained: each update counts as its median cost, so the warm-up's first steps do not matter.
struct Common {
  double samples = INFINITY, updates = INFINITY, seconds = INFINITY;
};
}  // namespace

static Common common(const SweepResult& result) {
  Common least;
  for (const AbArm& arm : result.arms)
    for (const AbProcess& process : arm.processes) {
      const auto updates = double(process.end.losses.size());
      least.samples = std::min(least.samples, updates * batch_of(arm));
      least.updates = std::min(least.updates, updates);
      least.seconds = std::min(least.seconds, updates * batch_cost(arm));
    }
  return least;
}

// Returns the mean loss of the last tenth of the first `count` updates, over all processes.
static double loss_after(const AbArm& arm, double count) {
  const int64_t updates = std::max<int64_t>(1, std::llround(count));
  const int64_t window = std::max<int64_t>(1, updates / 10);
  double sum = 0;
  for (const AbProcess& process : arm.processes)
    for (int64_t i = updates - window; i < updates; ++i) sum += process.end.losses[size_t(i)];
  return sum / double(window * std::ssize(arm.processes));
}

// ---- the law of workers

static Names other_settings(const AbArm& arm) {
  Names rest = arm.set;
  std::erase_if(rest, [](const std::string& s) { return s.starts_with("toggles.num_workers="); });
  return rest;
}

std::vector<SweptLaw> swept_laws(const SweepResult& result) {
  std::vector<SweptLaw> laws;
  if (!vary(result, &SweepFacts::workers)) return laws;
  for (size_t i = 0; i < result.arms.size(); ++i) {
    if (result.facts[i].workers == kAutoWorkers) continue;  // changes during the run
    auto law = std::ranges::find_if(laws, [&](const SweptLaw& other) {
      return other_settings(result.arms[other.arms.front()]) == other_settings(result.arms[i]);
    });
    if (law == laws.end()) law = laws.insert(law, SweptLaw{});
    law->arms.push_back(i);
  }
  for (SweptLaw& swept : laws) {
    std::vector<WorkerCost> measured;
    for (const size_t i : swept.arms)
      measured.push_back(
          {result.facts[i].workers, batch_cost(result.arms[i]), reader_cost(result.arms[i])});
    swept.law = fit_law(measured);
  }
  return laws;
}

static Json to_json(const SweepResult& result, size_t i) {
  const AbArm& arm = result.arms[i];
  const auto& [values, batch, workers, pixels, work] = result.facts[i];
  Json json = arm_json(arm, result.options);
  json["values"] = values;
  json["batch_cost"] = batch_cost(arm);
  json["reader_cost"] = reader_cost(arm);
  json["ips"] = samples_per_s(arm);
  if (const auto gaps = epoch_gaps(arm); !gaps.empty()) json["epoch_gap_s"] = median(gaps);
  json["peak_tensor_bytes"] = peak(arm, &AbEnd::peak_tensor_bytes);
  json["peak_resident_bytes"] = peak(arm, &AbEnd::peak_resident_bytes);
  json["cpu_share"] = median(costs(arm, {}, &AbBlock::cpu_s)) / batch_cost(arm);
  json["speedup_over_first"] = speedup_json(speedup_over_first(result, arm), result);
  json["batch_size"] = batch;
  json["workers"] = workers;
  json["pixels"] = pixels;
  if (work) json["flop"] = work->flop, json["bytes"] = work->bytes;
  if (!vary(result, &SweepFacts::batch)) return json;
  const Common all = common(result);
  json["loss_at_equal_samples"] = loss_after(arm, all.samples / batch_of(arm));
  json["loss_at_equal_updates"] = loss_after(arm, all.updates);
  json["loss_at_equal_time"] = loss_after(arm, all.seconds / batch_cost(arm));
  return json;
}

Json to_json(const SweepResult& result) {
  Json keys = Json::object(), arms = Json::array(), laws = Json::array();
  for (const SweepKey& key : result.keys) keys[key.key] = key.values;
  for (size_t i = 0; i < result.arms.size(); ++i) arms.push_back(to_json(result, i));
  for (const auto& [law_arms, law] : swept_laws(result))
    if (law)
      laws.push_back({{"arms", law_arms},
                      {"load_s", law->load_s},
                      {"compute_s", law->compute_s},
                      {"knee", law->knee()}});
  return report_json(
      "sweep", result,
      {{"config", result.options.config}, {"keys", keys}, {"arms", arms}, {"laws", laws}});
}

static std::string law_section(const SweepResult& result, const SweptLaw& swept) {
  std::string text = "\n## Workers\n\n";
  if (const Names rest = other_settings(result.arms[swept.arms.front()]); !rest.empty())
    text += cat("With ", joined(rest), ":\n\n");
  if (!swept.law)
    return text + "No arm waits for data, so L is unknown; add an arm with 0 workers.\n";
  const LoaderLaw& law = *swept.law;
  text += fmt::format(
      "Loading a batch takes L = {} ms and computing a step C = {} ms, fitted to\nthese arms. The "
      "law is L + C without workers and max(C, L / W) with W workers.\nThe knee is at W = ceil(L "
      "/ C) = {}.\n\n",
      ms(law.load_s), ms(law.compute_s), law.knee());
  std::vector<Names> rows = {{"workers", "predicted ms", "measured ms", "ratio"}};
  for (const size_t i : swept.arms) {
    const int64_t workers = result.facts[i].workers;
    const double predicted = law.batch_cost(workers), measured = batch_cost(result.arms[i]);
    rows.push_back({cat(workers, workers == law.knee() ? " (knee)" : ""), ms(predicted),
                    ms(measured), fmt::format("{:.3f}", measured / predicted)});
  }
  return text + markdown_table(rows);
}

static Json table_rows(const SweepResult& result) {
  Json rows = to_json(result)["arms"];
  for (Json& row : rows) {
    row["pixels_per_s"] = double(row["pixels"]) * double(row["ips"]);
    if (!row.contains("flop")) continue;
    const double flop = row["flop"], bytes = row["bytes"];
    row["flop_per_s"] = flop / double(row["batch_cost"]);
    if (bytes > 0) row["flop_per_byte"] = flop / bytes;
  }
  return rows;
}

using TableOf = std::function<std::string(const std::vector<ArmColumn>&)>;

static std::string cost_section(const TableOf& table, bool gaps) {
  std::vector<ArmColumn> columns = {{"ms", "batch_cost", "{:.4g}", 1e3},
                                    {"reader", "reader_cost", "{:.4g}", 1e3},
                                    {"ips", "ips", "{:.0f}"},
                                    {"MB", "peak_tensor_bytes", "{:.2f}", 1e-6},
                                    {"RSS MB", "peak_resident_bytes", "{:.2f}", 1e-6},
                                    {"CPU %", "cpu_share", "{:.0f}", 100}};
  if (gaps) columns.push_back({"gap", "epoch_gap_s", "{:.4g}", 1e3, "none"});
  return cat(
      "\n", table(columns),
      "\nms is batch_cost, and reader its part spent waiting for data: medians of the\nblocks. MB "
      "is the peak of tensors, and 100 CPU % is one core.",
      gaps ? " gap is\nepoch_gap_s: what the step waits for data between two epochs, ms." : "",
      "\n\n");
}

static std::string sections(const SweepResult& result, const TableOf& table) {
  const ArmColumn intensity = {"FLOP/byte", "flop_per_byte", "{:.2f}", 1, "unknown"};
  const Common all = common(result);
  std::string text;
  if (vary(result, &SweepFacts::batch))
    text += cat("\n## Batch size\n\n",
                table({{"samples/s", "ips", "{:.0f}"},
                       intensity,
                       {"same samples", "loss_at_equal_samples", "{:.4f}"},
                       {"same updates", "loss_at_equal_updates", "{:.4f}"},
                       {"same time", "loss_at_equal_time", "{:.4f}"}}),
                fmt::format("\nThe last columns are losses of each arm after {} samples, after {} "
                            "updates, and\nafter {:.3g} s at its median cost: means of the last "
                            "tenth of these updates. All\narms have the same peak learning rate.\n",
                            all.samples, all.updates, all.seconds));
  if (models_vary(result))
    text += cat("\n## Model\n\n",
                table({{"GFLOP", "flop", "{:.3g}", 1e-9},
                       {"MB", "bytes", "{:.3g}", 1e-6},
                       intensity,
                       {"GFLOP/s", "flop_per_s", "{:.3g}", 1e-9},
                       {"CPU %", "cpu_share", "{:.0f}", 100}}),
                "\nGFLOP and MB are those of a step, as its ops state them.\n");
  if (vary(result, &SweepFacts::pixels))
    text += cat("\n## Image size\n\n", table({{"pixels", "pixels", "{:.0f}"},
                                              {"Mpixels/s", "pixels_per_s", "{:.3g}", 1e-6},
                                              intensity,
                                              {"reader ms", "reader_cost", "{:.4g}", 1e3}}));
  for (const SweptLaw& law : swept_laws(result)) text += law_section(result, law);
  return text;
}

std::string to_markdown(const SweepResult& result) {
  Names keys, names;
  for (const SweepKey& key : result.keys) keys.push_back(key.key), names.push_back(key.name());
  Json rows = table_rows(result);
  const bool gaps =
      std::ranges::any_of(rows, [](const Json& row) { return row.contains("epoch_gap_s"); });
  const TableOf table = [&](std::vector<ArmColumn> columns) {
    columns.insert(columns.begin(), {fmt::format("{}", fmt::join(names, " ")), "values"});
    return markdown_table(rows, columns);
  };
  std::string text =
      cat("# ", printable(result.options.config), ": ", joined(keys), "\n\n", rounds_list(result),
          result.unmeasured.empty()
              ? ""
              : list_item("not measured, no time in the budget: " + joined(result.unmeasured)),
          cost_section(table, gaps));
  const std::string more = sections(result, table);
  rows.erase(0);
  return cat(text, table({{"times as fast per sample as the first", "speedup_over_first"}}),
             "\n* marks a difference beyond the noise of the placebo.\n", more, "\n",
             measurement_text(result));
}

}  // namespace bellows
