// The process of an arm: trains as `trainer train` would. After each block it reports the cost of
// the block and stops itself with SIGSTOP.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstring>
#include "core/base/trace.h"
#include "core/device/adaptive_threads.h"
#include "trainer/ab/ab.h"
#include "trainer/ab/process.h"
#include "trainer/run/loop.h"
#include "trainer/session/session.h"
#include "trainer/state/training_state.h"
#include "trainer/state/weights.h"

namespace bellows {

static void report(std::string line) {
  line += '\n';
  if (!write_fully(kReportFd, bytes_of(line)))
    fail(Exit::storage, "ab: an arm cannot write its report: ", std::strerror(errno));
}

namespace {

// Measures one block per time slice. The clocks start when the parents have resumed the processes
// of all ranks, and stop when the block is complete.
class BlockTimer {
 public:
  BlockTimer(const AbOptions& options, const Session& session)
      : session_(session),
        due_(options.measure == AbMeasure::epoch ? session.steps_per_epoch() : options.warmup),
        next_due_(options.measure == AbMeasure::epoch ? due_ : options.steps) {
    begin();
  }

  void end_update() {
    if (++block_.steps < due_) return;
    synchronize(current_stream(session_.device));
    block_.wall_s = seconds_since(wall_begin_);
    block_.cpu_s = seconds_since(cpu_begin_, Clock::cpu);
    block_.counters = trace::counters();
    report(to_line(block_));
    raise(SIGSTOP);
    due_ = next_due_;
    begin();
  }

 private:
  void begin() {
    session_.host_group().barrier("the start of a time slice");
    block_ = {};
    wall_begin_ = time_ns(Clock::wall);
    cpu_begin_ = time_ns(Clock::cpu);
  }

  const Session& session_;
  int64_t due_, next_due_;  // steps
  AbBlock block_;
  int64_t wall_begin_ = 0, cpu_begin_ = 0;  // ns
};

}  // namespace

// The same plan, but long enough for all blocks and without early stopping. When steps are
// measured, evaluation and checkpoints are off too.
static Plan measured_plan(Plan plan, const AbOptions& options) {
  plan.target = {};
  plan.train.patience = 0;
  plan.ckpt.best = "none";
  plan.train.max_iters = 0;
  plan.train.epochs = 1 + options.blocks;
  if (options.measure == AbMeasure::epoch) return plan;
  plan.train.max_iters = options.warmup + options.blocks * options.steps;
  plan.train.epochs = plan.train.max_iters;  // an epoch has at least one step
  plan.eval.every = plan.ckpt.every = 0;
  return plan;
}

static AbEnd end_of(const Outcome& outcome, Device device) {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return {outcome.losses, trace::counters(), pool_threads(), allocator_stats(device).peak_allocated,
          usage.ru_maxrss * 1024};
}

int run_arm(const Plan& plan, const AbOptions& options, const std::string& folder) {
  CHECK(fcntl(kReportFd, F_GETFD) >= 0,
        "ab: --arm is for the processes that ab starts itself; leave it out");
  Session session(measured_plan(plan, options));
  std::vector<std::string> unsaid;
  load_weights(session, unsaid);
  make_folders(folder);
  Log log(session.plan, folder, LogOutput::silent);
  Checkpoints checkpoints(folder, session.plan.ckpt);
  Signals signals;
  BlockTimer timer(options, session);
  const Outcome outcome = train(session, log, session.ranks.rank == 0 ? &checkpoints : nullptr,
                                signals, {}, [&](const Position&) { timer.end_update(); });
  if (outcome.signal != 0) return 128 + outcome.signal;
  report(to_line(end_of(outcome, session.device)));
  return 0;
}

}  // namespace bellows
