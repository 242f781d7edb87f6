// Findings about the arms of `trainer ab`: speedup, footprints, and whether the losses keep the
// promise of the toggle. Training amplifies rounding, so a difference need not be an error.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include "plan/toggle.h"
#include "trainer/ab/ab.h"

namespace bellows {

int64_t misses(const AbResult& result) {
  if (result.options.measure != AbMeasure::target) return 0;
  std::vector<AbArm> all = result.arms;
  all.push_back(result.placebo);
  int64_t count = 0;
  for (const AbArm& arm : all)
    for (const AbProcess& process : arm.processes) count += !process.end.reached_target;
  return count;
}

bool is_clear(const AbResult& result) {
  const Speedup placebo = placebo_speedup(result);
  return std::ranges::all_of(result.on(), [&](const AbArm& arm) {
    const Speedup s = speedup(result, arm);
    const bool equal = s.interval.low > 1 / 1.01 && s.interval.high < 1.01;
    return equal || judge(s, placebo) == Verdict::faster || judge(s, placebo) == Verdict::slower;
  });
}

double resolution(const AbResult& result, int64_t rounds) {
  double widest = 0;
  for (const AbArm& arm : result.on()) {
    const Speedup s = speedup(result, arm);
    const double deviation = std::log(s.interval.high / s.ratio) /
                             student_t(s.error, s.rounds - 1) * std::sqrt(double(s.rounds));
    widest = std::max(widest, student_t(0.05, rounds - 1) * deviation / std::sqrt(double(rounds)));
  }
  return noise_of(placebo_speedup(result)) * std::exp(widest) - 1;
}

Finding compare_footprints(const Toggle& toggle, const AbArm& off_arm, const AbArm& on_arm) {
  const int64_t off = footprint(toggle, off_arm);
  const int64_t on = footprint(toggle, on_arm);
  const std::string counts =
      fmt::format("`{}` counted {} with it off and {} with it on", toggle.footprint, off, on);
  if (on == 0) return {false, "did not run: " + counts};
  if (off != 0) return {false, "ran in both arms: " + counts};
  return {true, counts};
}

constexpr double kLooseEnd = 0.1;

// Returns the largest distance of two arms' losses up to each step. `choose` combines the rounds.
template <class Choose>
static std::vector<double> distances(const AbArm& a, const AbArm& b, const Choose& choose) {
  std::vector<double> chosen;
  for (size_t round = 0; round < a.processes.size(); ++round) {
    const auto &x = a.processes[round].end.losses, &y = b.processes[round].end.losses;
    double largest = 0;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      largest = std::max(largest, std::abs(x[i] - y[i]));
      if (round == 0)
        chosen.push_back(largest);
      else if (i < chosen.size())
        chosen[i] = choose(chosen[i], largest);
    }
  }
  return chosen;
}

static Same promise(const AbResult& result, const AbArm& on) {
  return promise(*result.toggle, result.off().processes.front().end.counters,
                 on.processes.front().end.counters);
}

Divergence divergence(const AbResult& result, const AbArm& on) {
  Divergence d = {distances(result.off(), on, std::ranges::min),
                  distances(result.off(), result.placebo, std::ranges::max)};
  if (!result.toggle || promise(result, on) != Same::close || d.placebo.empty()) return d;
  const std::vector<double>& losses = result.off().processes.front().end.losses;
  // Rounding of the loss itself can be larger than all that the placebo shows.
  const double loss_unit = std::ldexp(*std::ranges::max_element(losses), -23);
  const size_t last = d.placebo.size() - 1;
  for (size_t i = 0; i <= last; ++i) {
    const double apart = d.placebo[std::min(last, std::max(i, kFewestSteps - 1))];
    d.allowed.push_back(kChaosFactor * std::max(apart, loss_unit));
  }
  return d;
}

// Returns the mean of the last quarter of the losses, over all processes.
static double mean_end(const AbArm& arm) {
  std::vector<double> means;
  for (const AbProcess& process : arm.processes) {
    const std::vector<double>& losses = process.end.losses;
    means.push_back(mean({losses.end() - (std::ssize(losses) + 3) / 4, losses.end()}));
  }
  return mean(means);
}

// Returns the first step (from 1) whose losses differ in any bit in any round; 0 if there is none.
static int64_t first_unequal(const AbArm& off, const AbArm& on) {
  int64_t first = 0;
  for (size_t round = 0; round < off.processes.size(); ++round) {
    const auto &a = off.processes[round].end.losses, &b = on.processes[round].end.losses;
    if (a == b) continue;
    const int64_t step = std::ranges::mismatch(a, b).in1 - a.begin() + 1;
    first = first == 0 ? step : std::min(first, step);
  }
  return first;
}

static Finding judge_bitwise(const AbArm& off, const AbArm& on) {
  const int64_t step = first_unequal(off, on);
  return {step == 0,
          "declared bitwise, and " +
              (step == 0 ? "equal bit for bit" : fmt::format("unequal from step {} on", step))};
}

static Finding judge_close(const AbResult& result, const AbArm& on) {
  if (first_unequal(result.off(), on) == 0) return {true, "declared close, and equal bit for bit"};
  const Divergence d = divergence(result, on);
  double worst = 0;
  size_t worst_at = 0;
  for (size_t i = 0; i < std::min(d.arms.size(), d.allowed.size()); ++i) {
    const double factor = kChaosFactor * d.arms[i] / d.allowed[i];
    if (factor > worst) worst = factor, worst_at = i;
  }
  const auto rounds = static_cast<int64_t>(on.processes.size());
  const bool judged = rounds >= kFewestRounds && d.arms.size() >= kFewestSteps;
  std::string text = fmt::format(
      "declared close: the losses of off and on differ by at most {:.1e}; those of two runs of "
      "off, whose first weights differ in the last of {} bits, by {:.1e}. The largest ratio of the "
      "two at one step is {:.3g} (step {}); more than {:g} would be an error",
      d.arms.back(), result.mantissa + 1, d.placebo.back(), worst, worst_at + 1, kChaosFactor);
  if (!judged)
    text += fmt::format(", but fewer than {} processes a side or {} steps show none", kFewestRounds,
                        kFewestSteps);
  return {!judged || worst <= kChaosFactor, text};
}

static Finding judge_statistical(const AbArm& off, const AbArm& on) {
  const double gap =
      std::abs(mean_end(off) - mean_end(on)) / std::abs(off.processes.front().end.losses.front());
  return {gap <= kLooseEnd,
          fmt::format("declared statistical, so held loosely: the means of the last quarter may "
                      "differ by {} % of the first loss, and differ by {:.1f} %",
                      100 * kLooseEnd, 100 * gap)};
}

Finding compare_losses(const AbResult& result, const AbArm& on) {
  const AbArm& off = result.off();
  double sum = 0;
  for (const AbArm* arm : {&off, &on})
    for (const AbProcess& process : arm->processes) {
      if (process.end.losses.empty()) return {false, "no loss was reported"};
      for (const double loss : process.end.losses) sum += loss;
    }
  const AbEnd& off_end = off.processes.front().end;
  const std::string ends = fmt::format(
      "from {:.4f} to {:.4f} with it off and to {:.4f} with it on (means of the last quarter of {} "
      "steps)",
      off_end.losses.front(), mean_end(off), mean_end(on), off_end.losses.size());
  if (!std::isfinite(sum)) return {false, "not finite: " + ends};
  if (!result.toggle) return {true, "not judged, as no toggle promises anything; " + ends};
  const Same same = promise(result, on);
  Finding finding = same == Same::bitwise ? judge_bitwise(off, on)
                    : same == Same::close ? judge_close(result, on)
                                          : judge_statistical(off, on);
  finding.text += "; " + ends;
  return finding;
}

Finding compare_evaluations(const AbResult& result, const AbArm& on) {
  const AbEnd &first = result.off().processes.front().end, &changed = on.processes.front().end;
  const std::string ends = fmt::format("the test loss is {:.4f} with it off and {:.4f} with it on",
                                       first.evaluation, changed.evaluation);
  if (!std::isfinite(first.evaluation + changed.evaluation)) return {false, "not finite: " + ends};
  double least = INFINITY, most = 0, rounding = std::ldexp(std::abs(first.evaluation), -23);
  for (size_t round = 0; round < on.processes.size(); ++round) {
    const AbEnd &a = result.off().processes[round].end, &b = on.processes[round].end,
                &placebo = result.placebo.processes[round].end;
    if (a.losses.size() != b.losses.size()) continue;  // reached a target at different steps
    const double distance = std::abs(a.evaluation - b.evaluation);
    least = std::min(least, distance), most = std::max(most, distance);
    rounding = std::max(rounding, std::abs(a.evaluation - placebo.evaluation));
  }
  if (!result.toggle || least == INFINITY || first.losses.empty()) return {true, ends};
  const Same same = promise(result, on);
  const double apart = same == Same::bitwise ? most : least;
  double allowed = same == Same::bitwise ? 0 : kLooseEnd * std::abs(first.losses.front());
  if (same == Same::close)
    allowed = kChaosFactor * std::max(rounding, divergence(result, on).placebo.back());
  const bool few = same == Same::close && std::ssize(on.processes) < kFewestRounds;
  return {few || apart <= allowed,
          fmt::format("{}; {:.1e} apart, and more than {:.1e} would be an error", ends, apart,
                      allowed)};
}

}  // namespace bellows
