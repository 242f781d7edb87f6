// `trainer ab`: compares runs ("arms") that differ in one toggle or in their configurations. One
// arm is a placebo, equal to the first. With several ranks, each rank runs `ab` and its own rank of
// all arms, and rank 0 reports. Files of `ab` alone:
//   ab        the verb, configurations of the arms
//   findings  speedup, counters, losses              report      Markdown, JSON
#pragma once
#include <span>
#include "trainer/ab/arms.h"

namespace bellows {

struct AbOptions : ArmOptions {
  std::string toggle;       // name of the toggle; "" with `against`
  Names values;             // values of the arms with the toggle on
  std::string against;      // configuration of the other arm, or ""
  bool allow_many = false;  // `against` may differ in more than one option
};

// Arms: the off arm (or that of --config), then one per value (or that of --against).
struct AbResult : Comparison {
  const Toggle* toggle = nullptr;  // null with --against
  Names forced_off = {};
  Names differences = {};  // differing options, with --against
  const AbArm& off() const { return arms.front(); }
  std::span<const AbArm> on() const { return std::span(arms).subspan(1); }
};

// Starts and measures the arms. Prints what differs between them, and toggles that are off in all:
// those that need this one, because the off arm could not have them. `toggle`: null with
// options.against. Throws Error: exit 2 if there are no such arms, and as run_rounds() does.
AbResult compare_arms(const AbOptions& options, const Toggle* toggle);

int64_t misses(const AbResult& result);  // runs that ended before they reached their target

struct Finding {
  bool good;
  std::string text;
};
Finding compare_footprints(const Toggle& toggle, const AbArm& off, const AbArm& on);  // ran only on

// Largest distance of two arms' losses up to each step.
struct Divergence {
  std::vector<double> arms;          // off and on, in the round in which it is smallest
  std::vector<double> placebo;       // off and placebo, in the round in which it is largest
  std::vector<double> allowed = {};  // set by compare_losses() for a toggle of class `close`
};
Divergence divergence(const AbResult& result, const AbArm& on);
// Good if the losses keep the toggle's promise, or are finite without a toggle. A toggle of class
// `close` fails if, in every round, its losses come further apart than kChaosFactor times the
// largest distance that one unit in the last place has caused by then in any round.
constexpr double kChaosFactor = 10;
// Two runs diverge by up to a thousand times as much at the step in which a ReLU changes sides in
// one of them. The order of such steps is chance, so the placebo has until this step to show one.
constexpr size_t kFewestSteps = 16;
Finding compare_losses(const AbResult& result, const AbArm& on);
// As compare_losses(), for the loss of an evaluation after the last step.
Finding compare_evaluations(const AbResult& result, const AbArm& on);

// True if more rounds would not change the verdicts: each arm is faster, slower, or within 1 % of
// the off arm.
bool is_clear(const AbResult& result);
// Returns the smallest difference that all arms can show after `rounds` rounds: the whole interval
// must lie beyond the noise of the placebo, as in judge(). 0.02 is 2 %.
double resolution(const AbResult& result, int64_t rounds);

std::string headline(const AbResult& result, const AbArm& on);  // verdict, ratio, interval, placebo
std::string forced_off_text(const AbResult& result);            // toggles that are off in all arms
std::string to_markdown(const AbResult& result);
Json to_json(const AbResult& result);

}  // namespace bellows
