// `trainer ab`: compares runs ("arms") that differ in one toggle or in their configurations. In
// each round, every arm is a new process, and the processes run alternately, one time slice each,
// so that drift of the machine affects all alike. One arm is a placebo, equal to the first. With
// several ranks, each rank runs `ab` and its own rank of all arms, and rank 0 reports. Files in
// this folder:
//   ab        the verb                             process     a process as the parent controls it
//   config    configurations of the arms           findings    costs, speedup, counters
//   rounds    number of rounds, budget, early end  losses      rounding or an error?
//   interleave  one round: order of time slices    busy        other work on the machine
//   arm       the process of an arm                report      Markdown, JSON, progress line
#pragma once
#include "core/base/json.h"
#include "core/base/statistics.h"
#include "core/device/timer.h"
#include "plan/toggle.h"
#include "trainer/ab/busy.h"
#include "trainer/log/live_line.h"
#include "trainer/run/signals.h"

namespace bellows {

// step: training steps only, without evaluation and checkpoints. epoch: whole epochs, with their
// start, evaluation and checkpoint. target: whole runs, until they reach a target; each round has
// another seed.
enum class AbMeasure { step, epoch, target };

struct AbOptions {
  std::string config;
  Names overrides;
  std::string toggle;       // or "", with `against`
  Names values;             // of the arms that have the toggle on
  std::string against;      // configuration of the other arm, or ""
  bool allow_many = false;  // `against` may differ in more than one option
  AbMeasure measure = AbMeasure::step;
  TargetOptions target = {};  // with AbMeasure::target
  Clock clock = Clock::wall;  // cpu: on a busy machine; one thread only
  int64_t processes = 10;     // rounds: processes per arm
  double budget_s = 0;        // instead of `processes`: time for all rounds; 0: no limit
  int64_t blocks = 8;         // per process; 1 with AbMeasure::target
  int64_t steps = 20;         // per block, which is one epoch or one run with the other measures
  int64_t warmup = 20;        // steps before the first block; one epoch, or none
  double timeout_s = 600;     // limit for one time slice
  std::string report;         // path of the Markdown (.md), or ""; .json and .html go next to it
  int ranks = 1;              // that a launcher has started; set by the verb
};

// Reported by an arm at the end of each time slice.
struct AbBlock {
  int64_t steps = 0;
  double wall_s = 0, cpu_s = 0;  // time of all steps of the block, waiting for data included
  double waited_s = 0;           // in which threads of the pool had no core, added up
  Counters counters = {};        // since the start of the process
};
// Reported by an arm after its last time slice.
struct AbEnd {
  std::vector<double> losses = {};  // loss of every step, warm-up included
  Counters counters = {};
  int64_t threads = 0;  // size of the thread pool
  int64_t peak_tensor_bytes = 0, peak_resident_bytes = 0;
  int64_t samples = 0;          // of all updates and ranks
  bool reached_target = false;  // with AbMeasure::target
};
// Reports travel as one line of JSON each.
std::string to_line(const AbBlock& block);
std::string to_line(const AbEnd& end);
AbBlock parse_block(const std::string& line);  // throws Error (exit 9)
AbEnd parse_end(const std::string& line);

struct AbProcess {
  AbBlock warmup = {};
  std::vector<AbBlock> blocks = {};
  AbEnd end = {};
  double cpu_s_waiting = 0;  // CPU time used while it should have been stopped
};
struct AbArm {
  std::string name;                       // "fused_optimizer=on", or the configuration's path
  std::string config = {}, value = {};    // value: of the toggle, or "" without one
  std::vector<AbProcess> processes = {};  // one per round
};

// ---- rounds

// Returns which arm runs in each of the time slices of a round: A B C C B A A B C ... Neither arm
// is always the first, and a steady drift affects all alike.
std::vector<size_t> slice_order(size_t arms, int64_t blocks);

struct ArmCommand {
  std::string name;
  Names argv;
};
// One round: starts the arms one after the other and lets each run its warm-up, then `blocks` time
// slices each in slice_order. Calls `after_block` after every slice, warm-ups included. A slice may
// take up to `timeout_s` seconds. All arms have ended when it returns or throws. Throws Error if an
// arm fails (its exit code, or 9), takes too long (9) or runs outside its slice (9), and within a
// second after SIGINT or SIGTERM (exit 130, 143).
using AfterBlock = std::function<void(const AbBlock&)>;
std::vector<AbProcess> interleave(
    const std::vector<ArmCommand>& arms, int64_t blocks, double timeout_s, const Signals& signals,
    const AfterBlock& after_block = [](const AbBlock&) {});

// The part of an arm's command line that differs between processes.
struct ArmProcessOptions {
  std::string folder = {};  // of its run; "": this process is the verb itself
  int64_t round = 0;
  bool placebo = false;
  int64_t mantissa = 23;  // bits: the arms differ by rounding to that many
  int64_t parent = 0;     // the process of ab that starts it
};
// Changes every weight by one unit in the last place, up or down by chance, in all rounds but the
// first, and in the placebo once more. The arms of a round start equal but for the placebo, whose
// distance shows what training makes of a rounding error, and each round shows it from other
// weights. All layers are changed, because an arm rounds in all of them.
void nudge_weights(const NamedTensors& parameters, const ArmProcessOptions& process);

// Runs in the process of an arm: trains as the plan says, one time slice after the other, until all
// blocks are done. Writes its checkpoints and log to a folder. Returns the exit code: 0, or 128 +
// signal.
int run_arm(const Plan& plan, const AbOptions& options, const ArmProcessOptions& process);

// Returns the seconds in "90s" or "2m"; 0 for "". Throws Error (exit 2) that names the option.
double seconds_of(const std::string& text, const char* option);

// ---- configurations

// Returns the configuration of the arm in which the toggle has `value`. Toggles that need this one
// are off in all arms. The off arm could not have them, so the arms would differ in more than one
// toggle. Throws Error (exit 2).
Config arm_config(const AbOptions& options, const Toggle& toggle, const std::string& value);

// Returns the plan of that arm; without a toggle, the plan of the configuration.
Plan arm_plan(const AbOptions& options, const Toggle* toggle, const std::string& value);

// Returns the toggles that arm_config switches off although the user's configuration has them on,
// with the value that all arms use, e.g. "prefetch_factor=1".
Names forced_off(const AbOptions& options, const Toggle& toggle);

// Returns the differences between two configurations, one line each: toggles, and options that no
// toggle sets. The runs' names do not count.
Names differences(const Config& a, const Config& b);
// Returns those beyond the ones that the toggle itself makes. Empty if the arms can be compared.
Names extra_differences(const Config& off, const Config& on, const Toggle& toggle);

// Throws Error (exit 2) if two arms are equal or the toggle has no effect on this machine.
void check_arms(const AbOptions& options, const Toggle& toggle);

// Returns the differences between the two configurations. Throws Error (exit 2) if there is none,
// or more than one without allow_many.
Names check_against(const AbOptions& options);

// Returns the bits of the mantissa in the coarsest numbers that a run computes with: 23, or 10, 8
// or 7 with amp, tf32, compressed gradients or images in bytes.
int64_t mantissa_bits(const Plan& plan);

// ---- findings

struct AbResult {
  AbOptions options = {};
  const Toggle* toggle = nullptr;  // null with options.against
  Names forced_off = {};
  Names differences = {};        // with options.against
  AbArm off = {}, placebo = {};  // both with the toggle off
  std::vector<AbArm> on = {};    // one per value
  int64_t mantissa = 23;
  bool one_thread = true;  // in every arm, without loader workers
  double error = 0.05;     // probability that an interval misses the truth
  int64_t planned = 0;     // rounds; fewer may have run
  bool clear = false;      // ended early, since the answer was clear
  int signal = 0;          // SIGINT or SIGTERM if one ended the comparison, else 0
  BusyMachine busy = {};
  Json machine = {};
};

// Seconds per step, by block; with AbMeasure::target, seconds per run.
std::vector<double> costs_of(const AbProcess& process, const AbOptions& options, Clock clock);
std::vector<double> costs_of(const AbArm& arm, const AbOptions& options, Clock clock);
int64_t misses(const AbResult& result);  // runs that ended before they reached their target
// The arm's speedup over the toggle being off. Both the off arm and the placebo are off, so the
// geometric mean of their costs stands for it, which halves its share of the luck.
Speedup speedup(const AbResult& result, const AbArm& on);
Speedup placebo_speedup(const AbResult& result);

struct Finding {
  bool good;
  std::string text;
};
int64_t footprint(const Toggle& toggle, const AbArm& arm);  // over all processes
Finding compare_footprints(const Toggle& toggle, const AbArm& off, const AbArm& on);  // ran only on

// Distance of two arms' losses, by step: the largest so far.
struct Divergence {
  std::vector<double> arms;          // off and on, in the round in which it is smallest
  std::vector<double> placebo;       // off and placebo, in the round in which it is largest
  std::vector<double> allowed = {};  // for a toggle of class `close`, by compare_losses; else empty
};
Divergence divergence(const AbResult& result, const AbArm& on);
// Good if the losses keep the toggle's promise, or are finite without a toggle. One of class
// `close` is an error if, in every round, its losses come further apart than kChaosFactor times the
// largest distance that one unit in the last place has caused by then in any round.
constexpr double kChaosFactor = 10;
Finding compare_losses(const AbResult& result, const AbArm& on);

struct CounterRates {
  std::string name;
  double off, on;  // per step
};
std::vector<CounterRates> differing_counters(const AbArm& off, const AbArm& on);

// True if more rounds would not change the verdicts: each arm is faster, slower, or within 1 % of
// the off arm.
bool is_clear(const AbResult& result);
// Returns the difference that the interval of the widest arm resolves: 0.02 is 2 %.
double resolution(const AbResult& result, int64_t rounds);

std::string headline(const AbResult& result, const AbArm& on);  // verdict, ratio, interval, placebo
std::string forced_off_text(const AbResult& result);            // toggles that are off in all arms
std::string to_markdown(const AbResult& result);
Json to_json(const AbResult& result);

// Progress on a terminal, with the estimated time left:
//   ab: process 2 of 10, time slice 12 of 27, 00:00:09 elapsed, ETA 00:00:51
class AbProgress {
 public:
  AbProgress(const AbOptions& options, size_t arms, int64_t rounds);
  void begin_round();
  void add(const AbBlock& block);                        // counts a finished time slice
  void set_rounds(int64_t rounds) { rounds_ = rounds; }  // once the budget has been divided
  void clear() { line_.clear(); }
  std::string text(double elapsed_s) const;

 private:
  void draw();

  LiveLine line_;
  AbMeasure measure_;
  int64_t slices_;     // of a round
  double round_work_;  // steps, or slices with AbMeasure::epoch
  int64_t rounds_, round_ = 0, done_ = 0;
  double work_done_ = 0;
  int64_t started_ns_;
};

}  // namespace bellows
