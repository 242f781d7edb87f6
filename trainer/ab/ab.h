// `trainer ab`: compares two runs ("arms") that differ in one toggle. The arms run alternately, one
// time slice each, so that drift of the machine affects both alike. With several ranks, each rank
// runs `ab` and its own rank of both arms, and rank 0 reports. Files in this folder:
//   ab        the verb                             interleave  order of time slices, report lines
//   config    configurations of the arms           findings    costs, speedup, counters, losses
//   arm       the process of an arm                report      Markdown, JSON, progress line
//   process   an arm as the parent controls it
#pragma once
#include "core/base/json.h"
#include "core/base/statistics.h"
#include "core/device/timer.h"
#include "plan/toggle.h"
#include "trainer/log/live_line.h"

namespace bellows {

// step: training steps only, without evaluation and checkpoints. epoch: whole epochs, with their
// start, evaluation and checkpoint.
enum class AbMeasure { step, epoch };

struct AbOptions {
  std::string config;
  Names overrides;
  std::string toggle, value;  // value: of the arm that has the toggle on
  AbMeasure measure = AbMeasure::step;
  Clock clock = Clock::wall;  // cpu: on a busy machine; one thread only
  int64_t steps = 50;         // per block; with AbMeasure::epoch a block is one epoch
  int64_t blocks = 40;        // per arm
  int64_t warmup = 50;        // steps before the first block; with AbMeasure::epoch one epoch
  double timeout_s = 600;     // limit for one time slice
  std::string report;         // path of the Markdown report (.md), or ""; a .json goes next to it
  int ranks = 1;              // that a launcher has started; set by the verb
};

// Reported by an arm at the end of each time slice.
struct AbBlock {
  int64_t steps = 0;
  double wall_s = 0, cpu_s = 0;  // time of all steps of the block, waiting for data included
  std::map<std::string, int64_t> counters;  // since the start of the process
};
// Reported by an arm after its last time slice.
struct AbEnd {
  std::vector<double> losses;  // loss of every step, warm-up included
  std::map<std::string, int64_t> counters;
  int64_t threads = 0;  // size of the thread pool
  int64_t peak_tensor_bytes = 0, peak_resident_bytes = 0;
};
// Reports travel as one line of JSON each.
std::string to_line(const AbBlock& block);
std::string to_line(const AbEnd& end);
AbBlock parse_block(const std::string& line);  // throws Error (exit 9)
AbEnd parse_end(const std::string& line);

struct AbArm {
  std::string name;  // "fused_optimizer=on"
  AbBlock warmup;
  std::vector<AbBlock> blocks;
  AbEnd end;
  double cpu_s_waiting = 0;  // CPU time used while it should have been stopped
};
struct AbPair {
  AbArm off, on;
};

// Returns which arm (0: off, 1: on) runs in each of the 2 * blocks time slices: A B B A A B B A ...
// Neither arm is always the first of a pair, and a steady drift affects both alike.
std::vector<int> slice_order(int64_t blocks);

struct ArmCommand {
  std::string name;
  std::vector<std::string> argv;
};
// Starts the two arms one after the other and lets each run its warm-up, then `blocks` time slices
// each in slice_order. Calls `after_block` after every slice, warm-ups included. A slice may take
// up to `timeout_s` seconds. Both arms have ended when it returns or throws. Throws Error if an arm
// fails (its exit code, or 9), takes too long (9) or runs outside its slice (9), and within a
// second after SIGINT or SIGTERM (exit 130, 143).
using AfterBlock = std::function<void(const AbBlock&)>;
AbPair interleave(
    const ArmCommand& off, const ArmCommand& on, int64_t blocks, double timeout_s,
    const AfterBlock& after_block = [](const AbBlock&) {});

// Runs in the process of an arm: trains as the plan says, one time slice after the other, until all
// blocks are done. Writes its checkpoints and log to `folder`. Returns the exit code: 0, or 128 +
// signal.
int run_arm(const Plan& plan, const AbOptions& options, const std::string& folder);

// ---- configurations

// Returns the configuration of the arm in which the toggle has `value`. Toggles that need this one
// are off in both arms. The off arm could not have them, so the arms would differ in more than one
// toggle. Throws Error (exit 2).
Config arm_config(const AbOptions& options, const Toggle& toggle, const std::string& value);

// Returns the toggles that arm_config switches off although the user's configuration has them on,
// with the value that both arms use, e.g. "prefetch_factor=1".
Names forced_off(const AbOptions& options, const Toggle& toggle);

// Returns the differences between two arms beyond those that the toggle itself makes, one line
// each. Empty if the arms can be compared.
Names extra_differences(const Config& off, const Config& on, const Toggle& toggle);

// Throws Error (exit 2) if the two arms are equal or the toggle has no effect on this machine.
void check_arms(const AbOptions& options, const Toggle& toggle);

// ---- findings

struct AbResult {
  AbOptions options;
  const Toggle* toggle = nullptr;
  Names forced_off;
  AbPair placebo;  // two arms, both with the toggle off
  AbPair measured;
  Json machine;
};

std::vector<double> step_costs(const AbArm& arm, Clock clock);  // s per step; one per block
Speedup speedup(const AbPair& pair, Clock clock);

struct Finding {
  bool good;
  std::string text;
};
int64_t footprint(const Toggle& toggle, const AbArm& arm);             // over the whole run
Finding compare_losses(const Toggle& toggle, const AbPair& pair);      // good: kept its promise
Finding compare_footprints(const Toggle& toggle, const AbPair& pair);  // good: ran only when on

struct CounterRates {
  std::string name;
  double off, on;  // per step
};
std::vector<CounterRates> differing_counters(const AbPair& pair);

std::string headline(const AbResult& result);         // verdict, ratio, interval and noise
std::string forced_off_text(const AbResult& result);  // toggles that are off in both arms
std::string to_markdown(const AbResult& result);
Json to_json(const AbResult& result);

// Progress on a terminal, with the estimated time left:
//   ab: placebo, time slice 12 of 82, 00:00:09 elapsed, ETA 00:00:51
class AbProgress {
 public:
  explicit AbProgress(const AbOptions& options);
  void begin(const std::string& title);  // starts one of the two comparisons
  void add(const AbBlock& block);        // counts a finished time slice
  void clear() { line_.clear(); }
  std::string text(double elapsed_s) const;

 private:
  void draw();

  LiveLine line_;
  AbMeasure measure_;
  int64_t slices_;  // per comparison, warm-ups included
  double work_;     // in both comparisons: steps, or slices with AbMeasure::epoch
  int64_t done_ = 0;
  double work_done_ = 0;
  int64_t started_ns_;
  std::string title_;
};

}  // namespace bellows
