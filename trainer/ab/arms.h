// Arms of a comparison, for `ab`, `ladder` and `sweep`: each is a configuration with some settings.
// In each round, every arm is a new process, and the processes run alternately, one time slice
// each, so that drift of the machine affects all alike. Files in this folder that serve all three:
//   arms        configurations, costs, counters     process     a process as the parent controls it
//   rounds      number of rounds, budget, end       arm         the process of an arm
//   interleave  one round: order of time slices     arm_report  command line, report, machine
#pragma once
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "core/base/statistics.h"
#include "core/base/trace.h"
#include "core/config/values.h"
#include "core/device/timer.h"
#include "core/tensor/tensor.h"
#include "plan/run_options.h"
#include "trainer/log/meter.h"

namespace bellows {

struct Config;
struct Plan;
struct Toggle;
using trace::Counters;

// step: training steps only, without evaluation and checkpoints. epoch: whole epochs, with their
// start, evaluation and checkpoint. target: whole runs, until they reach a target; each round has
// another seed.
enum class AbMeasure { step, epoch, target };

// Options of every comparison.
struct ArmOptions {
  std::string verb = "ab";  // begins each message
  std::string config = {};
  Names overrides = {};  // applied to all arms
  AbMeasure measure = AbMeasure::step;
  TargetOptions target = {};           // for AbMeasure::target
  int64_t processes = 10;              // rounds: processes per arm
  double budget_s = 0;                 // time for all of it; 0: no limit
  int64_t begin_ns = trace::now_ns();  // start of the budget
  int64_t blocks = 8;                  // blocks per process; 1 with AbMeasure::target
  int64_t steps = 20;   // steps per block; with the other measures a block is one epoch or one run
  int64_t warmup = 20;  // steps before the first block; one epoch, or none
  double timeout_s = 600;     // limit for one time slice
  Clock clock = Clock::wall;  // cpu: on a busy machine; one thread only
  std::string report = {};    // path of the Markdown report (.md), or ""; a .json goes next to it
  int ranks = 1;              // ranks that a launcher has started; set by the verb
};

// Returns the seconds of the budget that are left; infinity without one.
double budget_left_s(const ArmOptions& options);

// Reported by an arm at the end of each time slice.
struct AbBlock {
  int64_t steps = 0;
  double wall_s = 0, cpu_s = 0;  // time of all steps of the block, waiting for data included
  double waited_s = 0;           // time in which threads of the pool had no core, added up
  Counters counters = {};        // values since the start of the process
  double reader_s = 0;           // part of wall_s in which the loop waited for data
  double energy_j = 0;           // energy used by the GPU in wall_s, in joules; 0: not measured
  // The loop's waits between two epochs: workers end, start, and deliver the first batch.
  std::vector<double> epoch_gaps_s = {};
};
// Reported by an arm after its last time slice.
struct AbEnd {
  std::vector<double> losses = {};  // loss of every step, warm-up included
  Counters counters = {};
  int64_t threads = 0;  // size of the thread pool
  int64_t peak_tensor_bytes = 0, peak_resident_bytes = 0;
  int64_t samples = 0;          // samples of all updates and ranks
  bool reached_target = false;  // with AbMeasure::target
  int64_t pixels = 0;           // pixels of an image in the first epoch
  double evaluation = 0;        // loss of the first test batches after the last step
};

struct AbProcess {
  AbBlock warmup = {};
  std::vector<AbBlock> blocks = {};
  AbEnd end = {};
  double cpu_s_waiting = 0;  // CPU time used while it should have been stopped
};
struct AbArm {
  std::string name = {};    // "fused_optimizer=on", or the configuration's path
  std::string config = {};  // path of its file
  Names set = {};           // key=value: what this arm sets, after the overrides of all arms
  bool placebo = false;     // equal to another arm but for the first weights
  std::vector<AbProcess> processes = {};  // one per round
};

// Returns the arm with these settings beside those of the config.
AbArm make_arm(const ArmOptions& options, const std::string& name, const Values& set);
AbArm make_placebo(AbArm arm);  // returns a copy of the arm that is marked as a placebo
// Returns the configuration of an arm. Throws Error (exit 2).
Config load_config(const AbArm& arm, const Names& overrides);

// Returns why `after` is not a new valid run: "changes nothing in this plan", or an error; else "".
std::string no_other_run(const AbArm& before, const AbArm& after, const Names& overrides);

// Returns the bits of the mantissa in the coarsest numbers that a run computes with: 23, or 10, 8
// or 7 with amp, tf32, compressed gradients or images in bytes.
int64_t mantissa_bits(const Plan& plan);

// ---- the process of an arm

// Options of an arm that differ between its processes.
struct ArmProcessOptions {
  std::string folder = {};  // folder of its run; "": this process is the verb itself
  int64_t round = 0;
  bool placebo = false;
  int64_t mantissa = 23;  // bits: the arms differ by rounding to that many
  int64_t parent = 0;     // the process of the verb that starts it
};
// Changes every weight by one unit in the last place, up or down by chance, in all rounds but the
// first, and in the placebo once more. The arms of a round start equal but for the placebo, whose
// distance shows what training makes of a rounding error, and each round shows it from other
// weights. All layers are changed, because an arm rounds in all of them.
void nudge_weights(const NamedTensors& parameters, const ArmProcessOptions& process);

// Runs in the process of an arm, a `trainer ab` with hidden options: trains as the plan says, one
// time slice after the other, until all blocks are done. Writes its checkpoints and log to a
// folder. Returns the exit code: 0, or 128 + signal.
int run_arm(const Plan& plan, const ArmOptions& options, const ArmProcessOptions& process);

// Reports of an arm travel as one line of JSON each.
std::string to_line(const AbBlock& block);
std::string to_line(const AbEnd& end);
AbBlock parse_block(const std::string& line);  // throws Error (exit 9)
AbEnd parse_end(const std::string& line);

// ---- results

// Arms of a comparison, how its rounds ended, and on which machine.
struct Comparison {
  ArmOptions options;
  std::string words;    // words that the command adds to `options`: " --toggle amp --value bf16"
  std::string command;  // command that repeats the comparison; "": made from `options`
  std::vector<AbArm> arms;  // the others are compared with the first one, the baseline
  AbArm placebo;            // equal to the baseline
  int64_t mantissa = 23;    // bits: the least of mantissa_bits()
  bool one_thread = true;   // every arm has one thread and no loader workers
  double error = 0.05;      // probability that an interval misses the truth
  int64_t planned = 0;      // rounds; fewer may have run
  bool clear = false;       // ended early, since the answer was clear
  int signal = 0;           // SIGINT or SIGTERM if one ended the comparison, else 0
  BusyMachine busy;
  Json machine;
};

// Returns one quantity of each block: AbBlock::wall_s, cpu_s or energy_j, per step; with
// AbMeasure::target per run.
std::vector<double> costs(const AbProcess& process, const ArmOptions& options,
                          double AbBlock::*quantity);
std::vector<double> costs(const AbArm& arm, const ArmOptions& options, double AbBlock::*quantity);

// Returns the speedup of an arm over the geometric mean of others.
Speedup speedup(const Comparison& c, const std::vector<const AbArm*>& others, const AbArm& arm);
// Speedup over the baseline and the placebo, which have the same configuration: over the geometric
// mean of their costs, which halves their share of the luck.
Speedup speedup(const Comparison& c, const AbArm& arm);
Speedup placebo_speedup(const Comparison& c);

int64_t footprint(const Toggle& toggle, const AbArm& arm);  // sum over all processes
struct CounterRates {
  std::string name;
  double off, on;  // per step
};
std::vector<CounterRates> differing_counters(const AbArm& off, const AbArm& on);

}  // namespace bellows
