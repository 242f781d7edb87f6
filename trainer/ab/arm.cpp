// The process of an arm: trains as `trainer train` would. After each block it reports the cost of
// the block and stops itself with SIGSTOP.
#include <unistd.h>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <utility>
#include "core/base/module_path.h"
#include "core/base/philox.h"
#include "core/base/trace.h"
#include "core/device/threads.h"
#include "core/tensor/copy.h"
#include "trainer/ab/arms.h"
#include "trainer/ab/process.h"
#include "trainer/log/nvml.h"
#include "trainer/run/loop.h"
#include "trainer/session/evaluate.h"
#include "trainer/session/session.h"
#include "trainer/state/training_state.h"

namespace bellows {

static void report(std::string line) {
  line += '\n';
  if (!write_fully(kReportFd, bytes_of(line)))
    fail(Exit::storage, "arms: an arm cannot write its report: ", std::strerror(errno));
}

namespace {

// Measures one block per time slice. The clocks start when the parents have resumed the processes
// of all ranks, and stop when the block is complete. As the session's feed, it also measures how
// long the loop waits for data.
class BlockTimer : public Feed {
 public:
  BlockTimer(const ArmOptions& options, Session& session)
      : session_(session),
        feed_(*session.feed),
        due_(options.measure == AbMeasure::step    ? options.warmup
             : options.measure == AbMeasure::epoch ? session.steps_per_epoch()
                                                   : std::numeric_limits<int64_t>::max()),
        next_due_(options.measure == AbMeasure::step ? options.steps : due_) {
    session.feed = this;
    begin();
  }

  void end_update() {
    if (++block_.steps >= due_) end_block();
  }

  void end_block() {
    synchronize(current_stream(session_.device));
    block_.wall_s += seconds_since(0);
    block_.cpu_s += seconds_since(0, Clock::cpu);
    block_.waited_s += 1e-9 * double(cpu_time().waited_ns);
    block_.energy_j += energy_j();
    block_.counters = trace::counters();
    report(to_line(block_));
    raise(SIGSTOP);
    due_ = next_due_;
    begin();
  }

  void start(int64_t epoch, int64_t first_batch) override {
    const int64_t begin = time_ns(Clock::wall);
    feed_.start(epoch, first_batch);
    gap_s_ += seconds_since(begin);
    starts_ = true;
  }
  void catch_up() override { feed_.catch_up(); }
  void write_into(const Batch& place) override { feed_.write_into(place); }
  bool next(Batch& batch) override {
    const int64_t begin = time_ns(Clock::wall);
    const bool more = feed_.next(batch);
    const double took_s = seconds_since(begin);
    block_.reader_s += took_s;
    if (!more) gap_s_ = took_s;
    if (more && std::exchange(starts_, false))
      block_.epoch_gaps_s.push_back(std::exchange(gap_s_, 0) + took_s);
    return more;
  }

 private:
  void begin() {
    session_.host_group().barrier("the start of a time slice");
    block_ = {.wall_s = -seconds_since(0),
              .cpu_s = -seconds_since(0, Clock::cpu),
              .waited_s = -1e-9 * double(cpu_time().waited_ns),
              .energy_j = -energy_j()};
  }
  double energy_j() const { return gpu_ ? gpu_->energy_j().value_or(0) : 0; }

  Session& session_;
  Feed& feed_;
  const std::optional<Nvml> gpu_ = open_nvml(session_.device);
  int64_t due_, next_due_;  // steps
  AbBlock block_;     // starts as the negated quantities at its begin; those at its end are added
  double gap_s_ = 0;  // time between two epochs, so far
  bool starts_ = false;  // an epoch has started and has no batch yet
};

}  // namespace

// Returns the plan, long enough for all blocks and without early stopping. If steps are measured,
// evaluation and checkpoints are off, too.
static Plan measured_plan(Plan plan, const ArmOptions& options, int64_t round) {
  plan.target = {};
  plan.profile = {};
  plan.train.patience = 0;
  plan.ckpt.best = "none";
  if (options.measure == AbMeasure::target) {
    plan.target = options.target;
    plan.seed += uint64_t(round);
    return plan;
  }
  plan.train.max_iters = 0;
  plan.train.epochs = 1 + options.blocks;
  if (options.measure == AbMeasure::epoch) return plan;
  plan.train.max_iters = options.warmup + options.blocks * options.steps;
  plan.train.epochs = plan.train.max_iters;  // an epoch has at least one step
  plan.eval.every = plan.ckpt.every = plan.ckpt.every_iters = 0;
  return plan;
}

// Evaluates at the end: the counters and the peak of memory are those of training.
static AbEnd final_report(const Outcome& outcome, Session& session) {
  const auto updates = int64_t(outcome.losses.size()), per_epoch = session.steps_per_epoch();
  const Shape sample = session.input;  // for images: (C, H, W)
  constexpr int64_t kBatches = 8;      // a large test set would take longer than the comparison
  return {.losses = outcome.losses,
          .counters = trace::counters(),
          .threads = pool_threads(),
          .peak_tensor_bytes = allocator_stats(session.device).peak_allocated,
          .peak_resident_bytes = int64_t(peak_resident_bytes()),
          .samples = updates / per_epoch * session.loader->sampler().joint_size() +
                     updates % per_epoch * session.joint_batch(),
          .reached_target = outcome.at.target_s >= 0,
          .pixels = session.train_set->info().images() ? sample[1] * sample[2] : 0,
          .evaluation = evaluate(session, {}, kBatches).value("loss")};
}

// Zeros stay zeros, because the last place of a zero is a denormal.
static void nudge(const Tensor& weights, int64_t mantissa, const Philox& rng) {
  const Tensor host = clone(to(Device::cpu, weights));  // contiguous: equal in every memory format
  float* const w = host.ptr<float>();
  for (int64_t i = 0; i < host.numel(); ++i) {
    if (w[i] == 0) continue;
    const float unit = std::ldexp(1.0f, std::ilogb(w[i]) - static_cast<int>(mantissa));
    w[i] += rng.bits(uint64_t(i)) % 2 ? unit : -unit;
  }
  copy_into(weights, to(weights.device(), host));
}

void nudge_weights(const NamedTensors& parameters, const ArmProcessOptions& process) {
  const auto change = [&](uint64_t seed) {
    for (const auto& [name, tensor] : parameters)
      if (tensor.dtype() == DType::f32)
        nudge(tensor.detach(), process.mantissa,
              Philox({.seed = seed, .purpose = Purpose::init, .site = site_of(name).hash}));
  };
  const auto round = uint64_t(process.round);
  if (round > 0) change(2 * round);
  if (process.placebo) change(2 * round + 1);
}

int run_arm(const Plan& plan, const ArmOptions& options, const ArmProcessOptions& process) {
  CHECK(process.parent == getppid(),
        "ab: --arm-folder is for the processes that ab starts itself; leave it out");
  Session session(measured_plan(plan, options, process.round));
  std::vector<std::string> unsaid;
  load_weights(session, unsaid);
  nudge_weights(session.parameters, process);
  session.ema->restart();
  make_folders(process.folder);
  Log log(session.plan, process.folder, LogOutput::silent);
  Checkpoints checkpoints(process.folder, session.plan.ckpt);
  Signals signals;
  BlockTimer timer(options, session);
  const bool whole_run = options.measure == AbMeasure::target;
  if (whole_run) timer.end_block();  // there is no warm-up
  const Outcome outcome = train(session, log, session.ranks.rank == 0 ? &checkpoints : nullptr,
                                signals, {}, [&](const Position&) { timer.end_update(); });
  if (outcome.signal != 0) return 128 + outcome.signal;
  if (whole_run) timer.end_block();
  report(to_line(final_report(outcome, session)));
  return 0;
}

}  // namespace bellows
