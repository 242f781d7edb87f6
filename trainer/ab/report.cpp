// Results of `trainer ab` as Markdown that is readable unrendered, and as JSON; its progress line.
#include <fmt/format.h>
#include "core/base/trace.h"
#include "core/base/utf8.h"
#include "trainer/ab/ab.h"
#include "trainer/log/log_line.h"

namespace bellows {

static std::string on_and_off(const AbResult& result) {
  return result.measured.off.name + " against " + result.measured.on.name;
}

static std::string ratio_text(const Speedup& s) {
  return fmt::format("{:.3f} x (95 % interval {:.3f} to {:.3f})", s.ratio, s.interval.low,
                     s.interval.high);
}

static std::string verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::faster:
      return "faster";
    case Verdict::slower:
      return "slower";
    case Verdict::no_difference:
      return "no difference shown";
    case Verdict::too_few_blocks:
      break;
  }
  return fmt::format("no conclusion from fewer than {} blocks a side", kFewestBlocks);
}

std::string headline(const AbResult& result) {
  const Speedup measured = speedup(result.measured, result.options.clock);
  const Speedup placebo = speedup(result.placebo, result.options.clock);
  const Interval noise = noise_band(placebo);
  const bool ran = footprint(*result.toggle, result.measured.on) != 0;
  return fmt::format("{}{}: {}; noise {:.3f} to {:.3f}, {} blocks a side",
                     ran ? "" : "did not run; ", verdict_text(judge(measured, placebo)),
                     ratio_text(measured), noise.low, noise.high, measured.blocks);
}

// ---- Markdown

static std::string cost_text(const AbArm& arm, Clock clock) {
  const auto costs = step_costs(arm, clock);
  return fmt::format("{:.4g} ({:.4g} to {:.4g})", 1e3 * median(costs), 1e3 * quantile(costs, 0.25),
                     1e3 * quantile(costs, 0.75));
}

static std::string megabytes(int64_t bytes) { return fmt::format("{:.2f}", bytes / 1e6); }

// One row per quantity, one column per arm.
static std::string arm_table(const AbPair& pair) {
  std::string text = fmt::format("| | {} | {} |\n|---|---|---|\n", pair.off.name, pair.on.name);
  const auto row = [&](const char* what, const std::function<std::string(const AbArm&)>& of) {
    text += fmt::format("| {} | {} | {} |\n", what, of(pair.off), of(pair.on));
  };
  row("wall time per step, ms: median of the blocks (quartiles)",
      [](const AbArm& arm) { return cost_text(arm, Clock::wall); });
  row("CPU time per step, ms", [](const AbArm& arm) { return cost_text(arm, Clock::cpu); });
  row("blocks that were outliers", [](const AbArm& arm) {
    return std::to_string(count_outliers(step_costs(arm, Clock::wall)));
  });
  row("peak of tensors, MB", [](const AbArm& arm) { return megabytes(arm.end.peak_tensor_bytes); });
  row("peak of the process, MB",
      [](const AbArm& arm) { return megabytes(arm.end.peak_resident_bytes); });
  row("threads of the pool", [](const AbArm& arm) { return std::to_string(arm.end.threads); });
  row("CPU time while it was stopped, ms",
      [](const AbArm& arm) { return fmt::format("{:.3f}", 1e3 * arm.cpu_s_waiting); });
  return text;
}

static std::string counter_table(const AbPair& pair) {
  const auto rates = differing_counters(pair);
  if (rates.empty()) return "No counter differs.\n";
  std::string text =
      fmt::format("| counter, per step | {} | {} |\n|---|---|---|\n", pair.off.name, pair.on.name);
  for (const auto& [name, off, on] : rates)
    text += fmt::format("| `{}` | {:.4g} | {:.4g} |\n", name, off, on);
  return text;
}

// Quotes `word` for a shell if needed.
static std::string quoted(const std::string& word) {
  const bool plain = word.find_first_of(" *?#$&;'\"[]{}<>()|\\`~!") == std::string::npos;
  if (plain && !word.empty()) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

static std::string command_line(const AbOptions& o) {
  std::string text = "trainer ";
  if (o.ranks > 1) text += fmt::format("launch --ranks {} -- ", o.ranks);
  text += fmt::format("ab --config {} --toggle {} --value {} --blocks {}", quoted(o.config),
                      o.toggle, o.value, o.blocks);
  text += o.measure == AbMeasure::epoch ? " --measure epoch"
                                        : fmt::format(" --steps {} --warmup {}", o.steps, o.warmup);
  if (o.clock == Clock::cpu) text += " --clock cpu";
  if (o.timeout_s != AbOptions().timeout_s) text += fmt::format(" --timeout {}", o.timeout_s);
  for (const std::string& assignment : o.overrides) text.append(" ").append(quoted(assignment));
  return text;
}

static std::string machine_text(const Json& machine) {
  std::string text;
  for (const auto& [key, value] : machine.items())
    text +=
        fmt::format("- {}: {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  return text;
}

std::string forced_off_text(const AbResult& result) {
  return fmt::format("off in both arms, because they need {}: {}", result.toggle->name,
                     fmt::join(result.forced_off, ", "));
}

std::string to_markdown(const AbResult& result) {
  const Toggle& toggle = *result.toggle;
  const Finding losses = compare_losses(toggle, result.measured);
  const Finding footprints = compare_footprints(toggle, result.measured);
  const auto mark = [](const Finding& finding) { return finding.good ? "" : "**FAILED** "; };
  std::string text = fmt::format("# {}\n\n**{}**\n\n", on_and_off(result), headline(result));
  text += fmt::format("- claim: {}\n- cost: {}\n", toggle.claim, toggle.cost);
  if (!result.forced_off.empty()) text += fmt::format("- {}\n", forced_off_text(result));
  text += fmt::format("- footprint: {}{}\n", mark(footprints), footprints.text);
  text += fmt::format("- loss: {}{}\n", mark(losses), losses.text);
  text += fmt::format("- placebo, {} against itself: {}\n\n", result.placebo.off.name,
                      ratio_text(speedup(result.placebo, result.options.clock)));
  text += arm_table(result.measured) + "\n" + counter_table(result.measured) + "\n";
  text += fmt::format("    {}\n\n{}", printable(command_line(result.options)),
                      machine_text(result.machine));
  return text;
}

// ---- JSON

static Json arm_json(const AbArm& arm) {
  Json wall = Json::array(), cpu = Json::array();
  for (const double cost : step_costs(arm, Clock::wall)) wall.push_back(cost);
  for (const double cost : step_costs(arm, Clock::cpu)) cpu.push_back(cost);
  return {{"name", arm.name},
          {"wall_s_per_step", wall},
          {"cpu_s_per_step", cpu},
          {"cpu_s_waiting", arm.cpu_s_waiting},
          {"peak_tensor_bytes", arm.end.peak_tensor_bytes},
          {"peak_resident_bytes", arm.end.peak_resident_bytes}};
}

static Json pair_json(const AbPair& pair, Clock clock) {
  const Speedup s = speedup(pair, clock);
  return {{"ratio", s.ratio},
          {"interval", {s.interval.low, s.interval.high}},
          {"off", arm_json(pair.off)},
          {"on", arm_json(pair.on)}};
}

Json to_json(const AbResult& result) {
  const Finding losses = compare_losses(*result.toggle, result.measured);
  const Finding footprints = compare_footprints(*result.toggle, result.measured);
  Json counters = Json::object();
  for (const auto& [name, off, on] : differing_counters(result.measured))
    counters[name] = {off, on};
  return {{"toggle", result.toggle->name},
          {"verdict", headline(result)},
          {"claim", result.toggle->claim},
          {"held", result.forced_off},
          {"command", command_line(result.options)},
          {"clock", result.options.clock == Clock::wall ? "wall" : "cpu"},
          {"placebo", pair_json(result.placebo, result.options.clock)},
          {"measured", pair_json(result.measured, result.options.clock)},
          {"losses_hold", losses.good},
          {"losses", losses.text},
          {"footprint_holds", footprints.good},
          {"footprint", footprints.text},
          {"counters_per_step", counters},
          {"machine", result.machine}};
}

// ---- progress

AbProgress::AbProgress(const AbOptions& options)
    : measure_(options.measure),
      slices_(2 + 2 * options.blocks),
      work_(measure_ == AbMeasure::epoch
                ? 2.0 * static_cast<double>(slices_)
                : 4.0 * static_cast<double>(options.warmup + options.blocks * options.steps)),
      started_ns_(trace::now_ns()) {}

void AbProgress::begin(const std::string& title) {
  title_ = title;
  done_ = 0;
  draw();
}

void AbProgress::add(const AbBlock& block) {
  ++done_;
  work_done_ += measure_ == AbMeasure::epoch ? 1 : static_cast<double>(block.steps);
  draw();
}

std::string AbProgress::text(double elapsed_s) const {
  const std::string eta =
      work_done_ > 0 ? clock_text(elapsed_s * (work_ - work_done_) / work_done_) : "unknown";
  return cat("ab: ", title_, ", time slice ", done_, " of ", slices_, ", ", clock_text(elapsed_s),
             " elapsed, ETA ", eta);
}

void AbProgress::draw() {
  line_.draw(text(1e-9 * static_cast<double>(trace::now_ns() - started_ns_)));
}

}  // namespace bellows
