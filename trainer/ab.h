// `trainer ab`: two arms that differ in one toggle, timed in turns, and what may be said of it.
//   ab_process  an arm as the parent sees it      ab_arm     what an arm does with its turn
//   ab_finding  from blocks to statements         ab_report  statements as Markdown and JSON
//   ab          the protocol and the verb
#pragma once
#include "core/statistics.h"
#include "toggles/toggle.h"
#include "trainer/json.h"

namespace bellows {

enum class AbMeasure { step, epoch };  // an epoch has its start, evaluation and checkpoint in it
enum class AbClock { wall, cpu };      // cpu: of the process, for one thread on a busy machine

struct AbOptions {
  std::string config;
  Names overrides;
  std::string toggle;
  std::string value;  // of the arm that has it on
  AbMeasure measure = AbMeasure::step;
  AbClock clock = AbClock::wall;
  int64_t steps = 50;      // in a block; where it measures epochs a block is an epoch
  int64_t blocks = 40;     // a side
  int64_t warmup = 50;     // steps before the first block; where it measures epochs, one epoch
  double timeout_s = 600;  // for one turn
  std::string report;      // a .md; a .json goes beside it
};

// What an arm says at the end of a turn.
struct AbBlock {
  int64_t steps = 0;
  int64_t threads = 0;                      // of the pool
  double wall_s = 0, cpu_s = 0;             // of all its steps, getting the data included
  std::vector<double> losses;               // one a step
  std::map<std::string, int64_t> counters;  // since the process began
  int64_t peak_tensor_bytes = 0, peak_resident_bytes = 0;
};
std::string to_line(const AbBlock& block);
AbBlock parse_block(const std::string& line);  // throws Error (exit 9)

struct AbArm {
  std::string name;                // "fused_optimizer=on"
  std::vector<AbBlock> blocks;     // the first is the warm-up
  double cpu_seconds_waiting = 0;  // while it was stopped
};
struct AbPair {
  AbArm off, on;
};

struct AbResult {
  AbOptions options;
  const Toggle* toggle = nullptr;
  AbPair placebo;  // two arms with the toggle off
  AbPair measured;
  Json machine;
};

// ---- the protocol

struct ArmCommand {
  std::string name;
  std::vector<std::string> argv;
};
// Starts one after the other, lets each do its first turn, the warm-up, and then gives `blocks`
// turns to each. Throws Error if an arm fails, or works when the turn is not its own.
AbPair take_turns(const ArmCommand& off, const ArmCommand& on, int64_t blocks, double timeout_s);

// Everything in which the plans of two arms differ beyond what the toggle itself sets, a line each;
// empty where they are fit to be compared.
Names extra_differences(const Config& off, const Config& on, const Toggle& toggle);

// ---- findings

std::vector<double> step_costs(const AbArm& arm, AbClock clock);  // s; one for each counted block
Speedup speedup(const AbPair& pair, AbClock clock);

struct Finding {
  bool good;
  std::string text;
};
Finding compare_losses(const Toggle& toggle, const AbPair& pair);  // good: as the toggle declares
Finding compare_footprints(const Toggle& toggle, const AbPair& pair);  // good: moved on, still off

struct CounterRates {
  std::string name;
  double off, on;  // a counted step
};
std::vector<CounterRates> differing_counters(const AbPair& pair);

std::string headline(const AbResult& result);  // the verdict and its numbers, one line

// ---- report

std::string to_markdown(const AbResult& result);
Json to_json(const AbResult& result);

// ---- the arm's side

// Trains in turns until all blocks are done; each turn ends with a line to kReportTo and SIGSTOP.
void run_ab_arm(const Plan& plan, const AbOptions& options);

}  // namespace bellows
