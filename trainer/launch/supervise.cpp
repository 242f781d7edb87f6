#include "trainer/launch/supervise.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <set>
#include "core/base/output.h"
#include "core/base/trace.h"
#include "trainer/run/signals.h"

namespace bellows {

constexpr size_t kLastLines = 20;  // lines kept of each rank
constexpr int kLookMs = 100;       // interval of checking all ranks without events
constexpr double kSettleS = 1;     // after a failure: time for the causing rank to end
constexpr int kDistributed = static_cast<int>(Exit::distributed);

namespace {

// A process that leads its own process group. Not thread-safe.
class RankProcess {
 public:
  // `command` must outlive the object. Nothing is started yet. `kept`: the last lines of its output
  // are kept; false: stdout and stderr are this process's own. `prints`: lines that are kept are
  // also printed, with "[rank] " before them.
  RankProcess(const RankCommand& command, bool kept, bool prints)
      : command_(command), prints_(prints) {
    for (int i = 0; kept && i < 2; ++i) pipes_.emplace_back();
  }
  ~RankProcess() {  // kills the group
    if (!running()) return;
    send(SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  RankProcess(RankProcess&&) = delete;

  void start() {  // throws Error, exit 6
    const Descriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
    std::vector<Redirection> redirections = {{nothing.get(), STDIN_FILENO}};
    for (const int its : {STDOUT_FILENO, STDERR_FILENO})
      if (!pipes_.empty()) redirections.push_back({pipes_[its - 1].writer(), its});
    process_ = start_child(command_.command, redirections, Group::own);
    end_.emplace(static_cast<int>(syscall(SYS_pidfd_open, process_, 0)));
    for (LinePipe& pipe : pipes_) pipe.close_writer();
  }
  // Sends the signal to the group; no effect before start() and after reap().
  void send(int signal) const {
    if (running()) kill(-process_, signal);
  }
  bool running() const { return process_ > 0; }
  bool has_exited() const {  // true until reap()
    siginfo_t info = {};
    return running() && waitid(P_PID, process_, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == process_;
  }
  void reap() {     // call after has_exited(); kills the rest of the group
    send(SIGKILL);  // before waitpid, because another process may then get the number
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    end_.reset();
    signaled_ = WIFSIGNALED(status);
    code_ = signaled_ ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  int64_t rank() const { return command_.rank; }
  int code() const { return code_; }  // after reap(): exit code, or 128 + signal if one ended it
  bool signaled() const { return signaled_; }

  void watch(std::vector<pollfd>& all) const {  // adds descriptors that an event makes readable
    if (end_) all.push_back({end_->get(), POLLIN, 0});
    for (const LinePipe& pipe : pipes_)
      if (running() && !pipe.over()) all.push_back({pipe.reader(), POLLIN, 0});
  }
  void read_output() {  // call again after reap(), for the rest in the pipes
    for (LinePipe& pipe : pipes_)
      for (const std::string& line : pipe.read_lines(!running())) {
        const auto print = &pipe == &pipes_.front() ? say : say_error;
        if (prints_) print(prefixed(line));
        last_lines_.push_back(line);
        if (last_lines_.size() > kLastLines) last_lines_.pop_front();
      }
  }
  void print_last_lines() const {  // prints to stderr
    for (const std::string& line : last_lines_) say_error(prefixed(line));
  }
  // False if the rank printed nothing; output that is not read counts as printed.
  bool printed() const { return pipes_.empty() || !last_lines_.empty(); }

 private:
  std::string prefixed(const std::string& line) const { return cat("[", rank(), "] ", line); }

  const RankCommand& command_;
  const bool prints_;
  std::deque<LinePipe> pipes_;  // pipes of stdout and stderr, unless the rank shares ours
  std::deque<std::string> last_lines_;
  pid_t process_ = -1;
  std::optional<Descriptor> end_;  // readable once the process has exited
  int code_ = 0;
  bool signaled_ = false;
};

}  // namespace

static std::string describe_end(const RankProcess& rank) {
  if (rank.signaled())
    return cat("by signal ", rank.code() - 128, " (", strsignal(rank.code() - 128), ")");
  constexpr const char* kNames[] = {"usage",  "data",        "checkpoint", "numeric",
                                    "memory", "distributed", "storage",    "internal"};
  const int known = rank.code() - static_cast<int>(Exit::usage);
  const bool named = known >= 0 && known < std::ssize(kNames);
  return cat("with exit ", rank.code(), named ? cat(" (", kNames[known], ")") : "");
}

// True if the rank stopped because all ranks agreed to after a signal to one of them.
static bool stopped(const RankProcess& rank) {
  const int signal = rank.code() - 128;
  return !rank.signaled() && (signal == SIGINT || signal == SIGTERM);
}

// The end with the highest precedence is the cause. Exit 7 may be a consequence of the others.
static int precedence(const RankProcess& rank) {
  return rank.code() == kDistributed ? 0 : stopped(rank) ? 1 : 2;
}

namespace {

// Phases of a launch and what ends them:
//   running   a rank ends with 0: draining; a rank fails or stops: settling
//   draining  a rank fails or stops: settling; after timeout_s: ending, and a rank is stuck
//   settling  after settle_s(), in which the other ranks may end on their own: ending
//   ending    begins with SIGTERM for all ranks; after grace_s, SIGKILL
enum class Phase { running, draining, settling, ending };

class Supervisor {
 public:
  Supervisor(const std::vector<RankCommand>& ranks, const SuperviseOptions& options)
      : options_(options) {
    for (const RankCommand& rank : ranks)
      ranks_.emplace_back(rank, options.all_output || rank.rank > 0, options.all_output);
  }

  int run() {
    {
      const Signals relay([this](int signal) { pass_on(signal); });
      start();
      while (std::ranges::any_of(ranks_, &RankProcess::running)) {
        if (trace::now_ns() >= due_ns_) end_phase();
        wait_for_news();
        reap_ranks();
      }
    }
    // After a stop signal, exit 7 is not a failure: ranks that end earlier disconnect from the
    // others.
    if (stop_ && ended_by_us_ && (!cause_ || cause_->code() == kDistributed)) return 128 + stop_;
    if (stuck_)
      fail(Exit::distributed, "launch: rank ", stuck_->rank(),
           " was stopped or stuck: it ran on for ", options_.timeout_s,
           " s (dist.timeout_s) after another one's end; find out what it waited for");
    if (!cause_) return 0;
    if (stopped(*cause_)) {
      if (fatal_.contains(SIGKILL))
        warn(cat("launch: rank ", cause_->rank(), " stopped, but another one did not, even after ",
                 options_.grace_s, " s, and was killed"));
      return cause_->code();
    }
    cause_->print_last_lines();
    fail(static_cast<Exit>(cause_->code()), "launch: rank ", cause_->rank(), " ended first, ",
         describe_end(*cause_),
         cause_->code() == 128 + SIGKILL ? "; if nobody killed it, memory ran out: see dmesg"
         : cause_->printed()             ? "; its last lines are above"
                                         : "");
  }

 private:
  void start() {
    for (RankProcess& rank : ranks_) {
      const std::lock_guard lock(lock_);
      if (stop_)
        ended_by_us_ = true;
      else
        rank.start();
    }
  }

  void send(int signal) {
    for (const RankProcess& rank : ranks_) rank.send(signal);
  }

  // Sends signals on the signal thread, because the loop may wait for a reader of stdout.
  void pass_on(int signal) {
    const std::lock_guard lock(lock_);
    if (signal == SIGINT || signal == SIGTERM) {
      if (std::exchange(stop_, signal)) signal = SIGKILL;
      fatal_.insert(signal);
    }
    send(signal);
    if (stop_) send(SIGCONT);  // a stopped process would not handle the signal
  }

  void wait_for_news() const {
    std::vector<pollfd> all;
    for (const RankProcess& rank : ranks_) rank.watch(all);
    poll(all.data(), all.size(), kLookMs);
  }

  void reap_ranks() {
    for (RankProcess& rank : ranks_) {
      rank.read_output();
      if (!rank.has_exited()) continue;
      {
        const std::lock_guard lock(lock_);
        rank.reap();
        note_end(rank);
      }
      rank.read_output();
    }
  }

  void note_end(const RankProcess& rank) {
    if (rank.code() == 0) {
      if (phase_ <= Phase::draining) enter(Phase::draining, options_.timeout_s);
    } else if (fatal_.contains(rank.code() - 128)) {
      ended_by_us_ = true;
    } else if (caused(rank)) {
      cause_ = &rank;
      if (phase_ <= Phase::settling) enter(Phase::settling, settle_s());
    }
  }

  // Rank 0 writes the files, so if all ranks fail with one code, rank 0 is the cause, although
  // another rank may end first.
  bool caused(const RankProcess& rank) const {
    return !cause_ || precedence(rank) > precedence(*cause_) ||
           (rank.rank() == 0 && rank.code() == cause_->code() && rank.code() != kDistributed);
  }

  double settle_s() const {
    if (stopped(*cause_)) return options_.grace_s;
    const bool others = cause_->code() == kDistributed || cause_->rank() > 0;
    return others && !cause_->signaled() ? kSettleS : 0;
  }

  void enter(Phase phase, double seconds) {
    phase_ = phase;
    due_ns_ = trace::now_ns() + int64_t(seconds * 1e9);
  }

  void end_phase() {
    const std::lock_guard lock(lock_);
    if (phase_ == Phase::ending) {
      fatal_.insert(SIGKILL);
      return send(SIGKILL);
    }
    if (phase_ == Phase::draining) stuck_ = &*std::ranges::find_if(ranks_, &RankProcess::running);
    if (!stop_) {  // a second signal would prevent the last checkpoint
      fatal_.insert(SIGTERM);
      send(SIGTERM);
    }
    send(SIGCONT);
    enter(Phase::ending, options_.grace_s);
  }

  std::list<RankProcess> ranks_;
  const SuperviseOptions options_;
  Phase phase_ = Phase::running;
  int64_t due_ns_ = INT64_MAX;  // end of the phase
  // Rank that ended first without a signal from us, or the first that failed after an agreed stop.
  const RankProcess* cause_ = nullptr;
  const RankProcess* stuck_ = nullptr;  // rank that still ran at the end of `draining`
  // Guards the members below, and which ranks run, because signals arrive on another thread.
  std::mutex lock_;
  int stop_ = 0;         // the last SIGINT or SIGTERM that was passed on
  std::set<int> fatal_;  // signals sent in order to end the ranks
  bool ended_by_us_ = false;
};

}  // namespace

int supervise(const std::vector<RankCommand>& ranks, const SuperviseOptions& options) {
  return Supervisor(ranks, options).run();
}

}  // namespace bellows
