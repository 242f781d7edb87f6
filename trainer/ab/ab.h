// `trainer ab`: two arms that differ in one toggle, timed in turns, and what may be said of it.
//   ab_config   configurations of the arms        ab_arm     what an arm does with its turns
//   ab_process  an arm as the parent sees it      ab_finding  from blocks to statements
//   ab_turns    who has the turn, and what it     ab_losses  from losses to statements
//               says at the end of it             ab_report  statements as Markdown and JSON
//   ab_progress how far it is, on a terminal      ab         the verb
#pragma once
#include "core/base/statistics.h"
#include "plan/toggle.h"
#include "core/base/json.h"

namespace bellows {

// A step is measured without evaluation and without what the end of an epoch saves; an epoch with
// both, and with its start.
enum class AbMeasure { step, epoch };
enum class AbClock { wall, cpu };  // cpu: of the process, for one thread on a busy machine

struct AbOptions {
  std::string config;
  Names overrides;
  std::string toggle, value;  // the value of the arm that has it on
  AbMeasure measure = AbMeasure::step;
  AbClock clock = AbClock::wall;
  int64_t steps = 50;      // in a block; where epochs are measured a block is one
  int64_t blocks = 40;     // a side
  int64_t warmup = 50;     // steps before the first block; where epochs are measured, one epoch
  double timeout_s = 600;  // for one turn
  std::string report;      // a .md; a .json goes beside it
};

// What an arm says at the end of a turn.
struct AbBlock {
  int64_t steps = 0;
  double wall_s = 0, cpu_s = 0;             // of all its steps, getting the data included
  std::map<std::string, int64_t> counters;  // since the process began
};
// And when it is done.
struct AbEnd {
  std::vector<double> losses;  // of every step
  std::map<std::string, int64_t> counters;
  int64_t threads = 0;  // of the pool
  int64_t peak_tensor_bytes = 0, peak_resident_bytes = 0;
};
std::string to_line(const AbBlock& block);
std::string to_line(const AbEnd& end);
AbBlock parse_block(const std::string& line);  // throws Error (exit 9)
AbEnd parse_end(const std::string& line);

struct AbArm {
  std::string name;  // "fused_optimizer=on"
  AbBlock warmup;
  std::vector<AbBlock> blocks;
  AbEnd end;
  double cpu_s_waiting = 0;  // used while it was stopped
};
struct AbPair {
  AbArm off, on;
};

// Which arm, 0 or 1, has each of the 2 x blocks turns: A B B A A B B A ..., so that neither is
// always the first of a pair, and a steady drift falls on both alike.
std::vector<int> turn_order(int64_t blocks);

struct ArmCommand {
  std::string name;
  std::vector<std::string> argv;
};
// Starts one after the other, lets each do its first turn, the warm-up, and then gives `blocks`
// turns to each. Throws Error if an arm fails, or works when the turn is not its own, and between
// turns (exit 130, 143) after SIGINT or SIGTERM.
using AfterTurn = std::function<void(const AbBlock&)>;
AbPair take_turns(
    const ArmCommand& off, const ArmCommand& on, int64_t blocks, double timeout_s,
    const AfterTurn& after_turn = [](const AbBlock&) {});

// The arm's side: trains as the plan says, one turn after the other, until all blocks are done.
// What it writes goes to `folder`. Returns the exit code.
int run_arm(const Plan& plan, const AbOptions& options, const std::string& folder);

// ---- configurations

const Toggle& toggle_of(const AbOptions& options);  // throws Error (exit 2) with the nearest name

// The configuration of the arm in which the toggle has that value. Toggles that need this one are
// off in both arms: the arm without it could not have them, and two differences cannot be told
// apart. Throws Error (exit 2).
Config arm_config(const AbOptions& options, const Toggle& toggle, const std::string& value);

// Those among them that the user's configuration has on: "prefetch_factor=1", with the value held.
Names held_equal(const AbOptions& options, const Toggle& toggle);

// Differences between two arms beyond what the toggle itself sets, a line each; empty if the arms
// are fit to be compared.
Names extra_differences(const Config& off, const Config& on, const Toggle& toggle);

// Throws Error (exit 2) if the two arms make no comparison, or cannot run on this machine.
void check_arms(const AbOptions& options, const Toggle& toggle);

// ---- findings

struct AbResult {
  AbOptions options;
  const Toggle* toggle = nullptr;
  Names held;      // of held_equal
  AbPair placebo;  // two arms that have the toggle off
  AbPair measured;
  Json machine;
};

std::vector<double> step_costs(const AbArm& arm, AbClock clock);  // s; one for each block
Speedup speedup(const AbPair& pair, AbClock clock);

struct Finding {
  bool good;
  std::string text;
};
int64_t footprint(const Toggle& toggle, const AbArm& arm);             // from start to end
Finding compare_losses(const Toggle& toggle, const AbPair& pair);      // good: as it declares
Finding compare_footprints(const Toggle& toggle, const AbPair& pair);  // good: it moved on, not off

struct CounterRates {
  std::string name;
  double off, on;  // a step
};
std::vector<CounterRates> differing_counters(const AbPair& pair);

std::string headline(const AbResult& result);   // the verdict and its numbers, one line
std::string held_text(const AbResult& result);  // which toggles are held equal, one line
std::string to_markdown(const AbResult& result);
Json to_json(const AbResult& result);

}  // namespace bellows
