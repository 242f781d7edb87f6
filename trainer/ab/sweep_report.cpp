// Results of `trainer sweep` as Markdown that is readable unrendered, and as JSON.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <span>
#include "core/base/utf8.h"
#include "core/base/words.h"
#include "data/loader/loader.h"
#include "trainer/ab/arm_report.h"
#include "trainer/ab/sweep.h"

namespace bellows {

// ---- costs

// Median over the blocks of all processes.
template <class Of> static double over_blocks(const AbArm& arm, const Of& of) {
  std::vector<double> values;
  for (const AbProcess& process : arm.processes)
    for (const AbBlock& block : process.blocks) values.push_back(of(block));
  return median(values);
}

double batch_cost(const AbArm& arm) {
  return over_blocks(arm, [](const AbBlock& b) { return b.wall_s / double(b.steps); });
}

double reader_cost(const AbArm& arm) {
  return over_blocks(arm, [](const AbBlock& b) { return b.reader_s / double(b.steps); });
}

// Median wait for data between two epochs, in seconds. Empty if no block held the end of an epoch.
static std::optional<double> epoch_gap(const AbArm& arm) {
  std::vector<double> gaps;
  for (const AbProcess& process : arm.processes)
    for (const AbBlock& block : process.blocks)
      gaps.insert(gaps.end(), block.epoch_gaps_s.begin(), block.epoch_gaps_s.end());
  return gaps.empty() ? std::nullopt : std::optional(median(gaps));
}

// Samples of an update: a mean, because an epoch's last batch may be smaller.
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

// ---- losses

double loss_after(const AbArm& arm, int64_t updates) {
  double sum = 0;
  const int64_t window = std::max<int64_t>(1, updates / 10);
  for (const AbProcess& process : arm.processes)
    for (int64_t i = updates - window; i < updates; ++i) sum += process.end.losses[size_t(i)];
  return sum / double(window * std::ssize(arm.processes));
}

AtEqual common(const SweepResult& result) {
  AtEqual least = {INFINITY, INFINITY, INFINITY};
  for (const AbArm& arm : result.arms)
    for (const AbProcess& process : arm.processes) {
      const auto updates = double(process.end.losses.size());
      least.samples = std::min(least.samples, updates * batch_of(arm));
      least.updates = std::min(least.updates, updates);
      least.seconds = std::min(least.seconds, updates * batch_cost(arm));
    }
  return least;
}

AtEqual equal_losses(const SweepResult& result, const AbArm& arm) {
  const AtEqual all = common(result);
  const auto after = [&](double updates) {
    return loss_after(arm, std::max<int64_t>(1, std::llround(updates)));
  };
  return {.samples = after(all.samples / batch_of(arm)),
          .updates = after(all.updates),
          .seconds = after(all.seconds / batch_cost(arm))};
}

// ---- which sections apply

bool vary(const SweepResult& result, int64_t SweepArm::*fact) {
  return std::ranges::any_of(
      result.arms, [&](const SweepArm& arm) { return arm.*fact != result.arms.front().*fact; });
}

static int64_t pixels(const AbArm& arm) { return arm.processes.front().end.pixels; }

bool models_vary(const SweepResult& result) {
  return std::ranges::any_of(result.keys,
                             [](const SweepKey& key) { return key.key.starts_with("model"); });
}

bool sizes_vary(const SweepResult& result) {
  return std::ranges::any_of(
      result.arms, [&](const AbArm& arm) { return pixels(arm) != pixels(result.arms.front()); });
}

// Settings of an arm other than its number of workers.
static Names rest_of(const AbArm& arm) {
  Names rest = arm.set;
  std::erase_if(rest, [](const std::string& s) { return s.starts_with("toggles.num_workers="); });
  return rest;
}

std::vector<SweptLaw> swept_laws(const SweepResult& result) {
  std::vector<SweptLaw> laws;
  if (!vary(result, &SweepArm::workers)) return laws;
  for (size_t i = 0; i < result.arms.size(); ++i) {
    if (result.arms[i].workers == kAutoWorkers) continue;  // its number changes in the run
    auto law = std::ranges::find_if(laws, [&](const SweptLaw& other) {
      return rest_of(result.arms[other.arms.front()]) == rest_of(result.arms[i]);
    });
    if (law == laws.end()) law = laws.insert(law, SweptLaw{});
    law->arms.push_back(i);
  }
  for (SweptLaw& swept : laws) {
    std::vector<WorkerCost> measured;
    for (const size_t i : swept.arms)
      measured.push_back(
          {result.arms[i].workers, batch_cost(result.arms[i]), reader_cost(result.arms[i])});
    swept.law = fit_law(measured);
  }
  return laws;
}

// ---- Markdown

// First column of the tables: the keys, and an arm's values of them.
static std::string key_names(const SweepResult& result) {
  Names names;
  for (const SweepKey& key : result.keys) names.push_back(key.name());
  return fmt::format("{}", fmt::join(names, " "));
}
static std::string values_of(const SweepArm& arm) {
  return fmt::format("{}", fmt::join(arm.values, " "));
}

static double cpu_share(const AbArm& arm) {  // 1: one core, all the time
  return over_blocks(arm, [](const AbBlock& b) { return b.cpu_s / b.wall_s; });
}

static bool any_epoch_gap(const SweepResult& result) {
  return std::ranges::any_of(result.arms,
                             [](const AbArm& arm) { return epoch_gap(arm).has_value(); });
}

static std::string cost_table(const SweepResult& result) {
  std::vector<Names> rows = {{key_names(result), "ms", "reader", "ips", "MB", "RSS MB", "CPU %"}};
  const bool gaps = any_epoch_gap(result);
  if (gaps) rows.front().push_back("gap");
  for (const SweepArm& arm : result.arms) {
    rows.push_back({values_of(arm), ms(batch_cost(arm)), ms(reader_cost(arm)),
                    fmt::format("{:.0f}", samples_per_s(arm)), megabytes(tensor_bytes(arm)),
                    megabytes(resident_bytes(arm)), fmt::format("{:.0f}", 100 * cpu_share(arm))});
    if (!gaps) continue;
    const std::optional<double> gap = epoch_gap(arm);
    rows.back().push_back(gap ? ms(*gap) : "none");
  }
  return markdown_table(rows);
}

static std::string speed_table(const SweepResult& result) {
  std::vector<Names> rows = {{key_names(result), "times as fast per sample as the first"}};
  for (const SweepArm& arm : std::span(result.arms).subspan(1))
    rows.push_back({values_of(arm), marked(speedup_over_first(result, arm), result)});
  return markdown_table(rows);
}

static std::string intensity(const std::optional<Cost>& work) {
  return work && work->bytes > 0 ? fmt::format("{:.2f}", work->flop / work->bytes) : "unknown";
}

static std::string batch_section(const SweepResult& result) {
  std::vector<Names> rows = {
      {key_names(result), "samples/s", "FLOP/byte", "same samples", "same updates", "same time"}};
  const AtEqual all = common(result);
  for (const SweepArm& arm : result.arms) {
    const AtEqual losses = equal_losses(result, arm);
    rows.push_back({values_of(arm), fmt::format("{:.0f}", samples_per_s(arm)), intensity(arm.work),
                    fmt::format("{:.4f}", losses.samples), fmt::format("{:.4f}", losses.updates),
                    fmt::format("{:.4f}", losses.seconds)});
  }
  return cat("\n## Batch size\n\n", markdown_table(rows),
             fmt::format("\nThe last columns are losses of each arm after {} samples, after {} "
                         "updates, and\nafter {:.3g} s at its median cost: means of the last tenth "
                         "of these updates. All\narms have the same peak learning rate.\n",
                         all.samples, all.updates, all.seconds));
}

static std::string model_section(const SweepResult& result) {
  std::vector<Names> rows = {{key_names(result), "GFLOP", "MB", "FLOP/byte", "GFLOP/s", "CPU %"}};
  for (const SweepArm& arm : result.arms) {
    const auto text = [&](double value) { return arm.work ? fmt::format("{:.3g}", value) : "-"; };
    const Cost cost = arm.work.value_or(Cost{});
    rows.push_back({values_of(arm), text(1e-9 * cost.flop), text(1e-6 * cost.bytes),
                    intensity(arm.work), text(1e-9 * cost.flop / batch_cost(arm)),
                    fmt::format("{:.0f}", 100 * cpu_share(arm))});
  }
  return cat("\n## Model\n\n", markdown_table(rows),
             "\nGFLOP and MB are those of a step, as its ops state them.\n");
}

static std::string size_section(const SweepResult& result) {
  std::vector<Names> rows = {{key_names(result), "pixels", "Mpixels/s", "FLOP/byte", "reader ms"}};
  for (const SweepArm& arm : result.arms)
    rows.push_back({values_of(arm), std::to_string(pixels(arm)),
                    fmt::format("{:.3g}", 1e-6 * double(pixels(arm)) * samples_per_s(arm)),
                    intensity(arm.work), ms(reader_cost(arm))});
  return cat("\n## Image size\n\n", markdown_table(rows));
}

static std::string law_section(const SweepResult& result, const SweptLaw& swept) {
  std::string text = "\n## Workers\n\n";
  if (const Names rest = rest_of(result.arms[swept.arms.front()]); !rest.empty())
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
    const int64_t workers = result.arms[i].workers;
    const double predicted = law.batch_cost(workers), measured = batch_cost(result.arms[i]);
    rows.push_back({cat(workers, workers == law.knee() ? " (knee)" : ""), ms(predicted),
                    ms(measured), fmt::format("{:.3f}", measured / predicted)});
  }
  return text + markdown_table(rows);
}

std::string to_markdown(const SweepResult& result) {
  Names keys;
  for (const SweepKey& key : result.keys) keys.push_back(key.key);
  std::string text =
      cat("# ", printable(result.options.config), ": ", joined(keys), "\n\n", rounds_list(result));
  text += cat(
      "\n", cost_table(result),
      "\nms is batch_cost, and reader its part spent waiting for data: medians of the\nblocks. MB "
      "is the peak of tensors, and 100 CPU % is one core.",
      any_epoch_gap(result) ? " gap is\nepoch_gap_s: what the step waits for data between two "
                              "epochs, ms.\n\n"
                            : "\n\n",
      speed_table(result), "\n* marks a difference beyond the noise of the placebo.\n");
  if (vary(result, &SweepArm::batch)) text += batch_section(result);
  if (models_vary(result)) text += model_section(result);
  if (sizes_vary(result)) text += size_section(result);
  for (const SweptLaw& law : swept_laws(result)) text += law_section(result, law);
  return text + "\n" + measurement_text(result);
}

// ---- JSON

static Json json_of(const SweepResult& result, const SweepArm& arm) {
  Json json = arm_json(arm, result.options);
  json["values"] = arm.values;
  json["batch_cost"] = batch_cost(arm);
  json["reader_cost"] = reader_cost(arm);
  json["ips"] = samples_per_s(arm);
  if (const auto gap = epoch_gap(arm)) json["epoch_gap_s"] = *gap;
  json["peak_tensor_bytes"] = tensor_bytes(arm);
  json["peak_resident_bytes"] = resident_bytes(arm);
  json["cpu_share"] = cpu_share(arm);
  json["speedup_over_first"] = speedup_json(speedup_over_first(result, arm), result);
  json["batch_size"] = arm.batch;
  json["workers"] = arm.workers;
  json["pixels"] = pixels(arm);
  if (arm.work) json["flop"] = arm.work->flop, json["bytes"] = arm.work->bytes;
  if (vary(result, &SweepArm::batch)) {
    const AtEqual losses = equal_losses(result, arm);
    json["loss_at_equal_samples"] = losses.samples;
    json["loss_at_equal_updates"] = losses.updates;
    json["loss_at_equal_time"] = losses.seconds;
  }
  return json;
}

Json to_json(const SweepResult& result) {
  Json keys = Json::object(), arms = Json::array(), laws = Json::array();
  for (const SweepKey& key : result.keys) keys[key.key] = key.values;
  for (const SweepArm& arm : result.arms) arms.push_back(json_of(result, arm));
  for (const SweptLaw& swept : swept_laws(result))
    if (swept.law)
      laws.push_back({{"arms", swept.arms},
                      {"load_s", swept.law->load_s},
                      {"compute_s", swept.law->compute_s},
                      {"knee", swept.law->knee()}});
  const Json placebo = placebo_json(result);
  return {{"kind", "sweep"},
          {"config", result.options.config},
          {"command", command_of(result)},
          {"keys", keys},
          {"placebo", placebo},
          {"arms", arms},
          {"laws", laws},
          {"busy", result.busy.reasons()},
          {"machine", result.machine}};
}

}  // namespace bellows
