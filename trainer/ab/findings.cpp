// Speedup and footprints of the arms of `trainer ab`.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include "trainer/ab/ab.h"

namespace bellows {

int64_t misses(const AbResult& result) {
  if (result.options.measure != AbMeasure::target) return 0;
  const auto in = [](const AbArm& arm) {
    return std::ranges::count(arm.processes, false,
                              [](const AbProcess& process) { return process.end.reached_target; });
  };
  int64_t count = in(result.off) + in(result.placebo);
  for (const AbArm& arm : result.on) count += in(arm);
  return count;
}

bool is_clear(const AbResult& result) {
  const Speedup placebo = placebo_speedup(result);
  return std::ranges::all_of(result.on, [&](const AbArm& arm) {
    const Speedup s = speedup(result, arm);
    const bool equal = s.interval.low > 1 / 1.01 && s.interval.high < 1.01;
    return equal || judge(s, placebo) == Verdict::faster || judge(s, placebo) == Verdict::slower;
  });
}

double resolution(const AbResult& result, int64_t rounds) {
  double widest = 0;
  for (const AbArm& arm : result.on) {
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

}  // namespace bellows
