#include "trainer/launch/supervise.h"
#include <poll.h>
#include <algorithm>
#include <csignal>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include "core/base/check.h"
#include "core/base/trace.h"
#include "trainer/run/signals.h"

namespace bellows {

constexpr int kLookMs = 100;                  // interval of checking all ranks without events
constexpr int64_t kSettleNs = 1'000'000'000;  // after an exit 7: time for the causing rank to end
constexpr int kDistributed = static_cast<int>(Exit::distributed);

// ---- the end of a rank

static std::string meaning(int code) {
  static const std::map<Exit, const char*> names = {
      {Exit::usage, " (usage)"},           {Exit::data, " (data)"},
      {Exit::checkpoint, " (checkpoint)"}, {Exit::numeric, " (numeric)"},
      {Exit::memory, " (memory)"},         {Exit::distributed, " (distributed)"},
      {Exit::storage, " (storage)"},       {Exit::internal, " (internal)"}};
  const auto found = names.find(static_cast<Exit>(code));
  return found == names.end() ? "" : found->second;
}

static std::string end_of(const RankProcess& rank) {
  if (!rank.signaled()) return cat("with exit ", rank.code(), meaning(rank.code()));
  const int signal = rank.code() - 128;
  return cat("by signal ", signal, " (", strsignal(signal), ")");
}

namespace {

class Supervisor {
 public:
  Supervisor(const std::vector<RankCommand>& ranks, const SuperviseOptions& options)
      : grace_ns_(int64_t(options.grace_s * 1e9)) {
    for (const RankCommand& rank : ranks)
      ranks_.emplace_back(rank, options.all_output ? RankOutput::prefix
                                : rank.rank == 0   ? RankOutput::ours
                                                   : RankOutput::kept);
  }

  int run() {
    {
      const SignalRelay relay([this](int signal) { pass_on(signal); });
      start();
      while (std::ranges::any_of(ranks_, &RankProcess::running)) {
        wait_for_news();
        look();
      }
    }
    // After a stop signal exit 7 is no failure: ranks that end earlier disconnect from the others.
    const bool stopped = stop_ && ended_by_us_ && (!cause_ || cause_->code() == kDistributed);
    if (stopped) return 128 + stop_;
    if (!cause_) return 0;
    cause_->print_last_lines();
    fail(static_cast<Exit>(cause_->code()), "launch: rank ", cause_->rank(), " ended first, ",
         end_of(*cause_),
         cause_->code() == 128 + SIGKILL ? "; if nobody killed it, memory ran out: see dmesg"
                                         : "; its last lines are above");
  }

 private:
  // Starts no further rank after a stop signal.
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

  void look() {
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
    const int64_t now = trace::now_ns();
    if (cause_ && !term_ns_ && (cause_->code() != kDistributed || now - failed_ns_ > kSettleNs)) {
      term_ns_ = now;
      end_all();
    }
    if (term_ns_ && now - term_ns_ > grace_ns_) {
      const std::lock_guard lock(lock_);
      fatal_.insert(SIGKILL);
      send(SIGKILL);
    }
  }

  void note_end(const RankProcess& rank) {
    if (rank.code() == 0) return;
    if (fatal_.contains(rank.code() - 128)) {
      ended_by_us_ = true;
    } else if (!cause_ || (cause_->code() == kDistributed && rank.code() != kDistributed)) {
      cause_ = &rank;
      failed_ns_ = trace::now_ns();
    }
  }

  void end_all() {
    const std::lock_guard lock(lock_);
    if (!stop_) {  // a second signal would prevent the last checkpoint
      fatal_.insert(SIGTERM);
      send(SIGTERM);
    }
    send(SIGCONT);
  }

  std::list<RankProcess> ranks_;
  const int64_t grace_ns_;
  const RankProcess* cause_ = nullptr;
  int64_t failed_ns_ = 0, term_ns_ = 0;
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
