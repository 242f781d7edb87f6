// Postmortem: finds out, over the store, which rank made a collective fail, and why.
#pragma once
#include <atomic>
#include <functional>
#include <set>
#include "core/base/words.h"
#include "dist/groups/flight_recorder.h"
#include "dist/groups/process_group.h"

namespace bellows {

// Thread-safe. A live rank reports how far it got as soon as it sees a connection break. From these
// reports the others learn which ranks are dead, stuck or late.
class Postmortem {
 public:
  // `prefix` begins the names of its keys in the store.
  Postmortem(const GroupContext& group, const std::string& prefix)
      : store_(group.store),
        ranks_(group.ranks),
        timeout_s_(group.options.timeout_s),
        prefix_(prefix) {}

  // Publishes the cause of the failure, unless another rank has done so. Call it before closing
  // connections. Takes up to 0.5 s. Ignores errors of the store.
  void leave(const std::string& cause) {
    store_->end_within(kFarewell);
    try {
      if (store_->add(prefix_ + "causes", 1) == 1) store_->set(prefix_ + "cause", cause);
      store_->set(prefix_ + "failed", "");
    } catch (const Error&) {
    }
  }
  // Reports the number of collectives that this rank has started. `timed_out`: one of them took too
  // long, and no connection broke. Later calls do nothing. Ignores errors of the store.
  void report(int64_t started, bool timed_out) {
    if (reported_.exchange(true)) return;
    try {
      store_->set(key("started", ranks_.rank), cat(started, timed_out ? " timeout" : ""));
      store_->set(prefix_ + "failed", "");
    } catch (const Error&) {
    }
  }
  // Returns true once a rank has published a cause or a report, so the group has failed. Returns
  // false if the store does not answer.
  bool failed() const {
    try {
      return store_->wait(prefix_ + "failed", Timeout(0));
    } catch (const Error&) {
      return false;
    }
  }
  // Calls report(), then `close`, which makes the other ranks fail and report as well. Returns why
  // `c` failed: the published cause, or which ranks are dead, stuck or late. Takes up to 1.2 s,
  // also if rank 0 is stuck; later requests to the store fail. `symptom`: the library's message.
  // `away`: this rank began to wait long after the others, or did not run while it waited.
  std::string why(const Collective& c, int64_t started, bool timed_out, const std::string& symptom,
                  const std::function<void()>& close, bool away = false) {
    store_->end_within(kCauseSearch);
    report(started, timed_out);
    close();
    try {
      const std::string why = find(c, timed_out, symptom, away);
      finish();
      return why;
    } catch (const Error& error) {
      return cat("rank 0 left or is stuck: its store does not answer (", error.what(),
                 "); look at the last lines of rank 0");
    }
  }

 private:
  // Limit of all requests to the store for the cause.
  static constexpr Timeout kCauseSearch{1200};
  static constexpr Timeout kPatience{900};  // how long to wait for the reports of other ranks
  // How long rank 0 waits for finish() of the others, and how long publishing a cause may take.
  static constexpr Timeout kFarewell{500};

  // Returns the published cause, or "".
  std::string cause() const {
    const bool left = store_->wait(prefix_ + "cause", Timeout(0));
    return left ? store_->get(prefix_ + "cause", kPatience) : "";
  }

  std::string find(const Collective& c, bool timed_out, const std::string& symptom, bool away) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    Names silent, late;
    bool gave_up = false;  // another rank
    for (int r = 0; r < ranks_.world; ++r) {
      if (r == ranks_.rank) continue;
      if (const std::string left = cause(); !left.empty()) return left;
      bool reports = false;
      do reports = store_->wait(key("started", r), std::min(until(end, Timeout(0)), Timeout(50)));
      while (!reports && until(end, Timeout(0)).count() && !is_gone(*store_, r));
      if (!reports) {
        silent.push_back(std::to_string(r));
        silent_.insert(r);
        continue;
      }
      const std::string report = store_->get(key("started", r), kPatience);
      if (std::stoll(report) < c.sequence) late.push_back(std::to_string(r));
      gave_up = gave_up || report.ends_with(" timeout");
    }
    timed_out = timed_out || gave_up;
    if (const std::string left = cause(); !left.empty()) return left;
    const std::string within = cat(" within ", timeout_s_, " s; ");
    if (!silent.empty() && timed_out)
      return cat(named(silent), " did not answer", within, "is it stopped, or its machine down?");
    if (!silent.empty())
      return cat(named(silent),
                 " left and gave no cause; look at its last lines, and whether the "
                 "system killed it");
    if (away && gave_up)
      return cat("this rank did not come", within,
                 "the others have given up; was it stopped, or its machine too busy?");
    if (!late.empty() && timed_out)
      return cat(named(late), " did not come", within,
                 "find out what it is doing, or raise dist.timeout_s");
    if (!late.empty())
      return cat(named(late), " ended earlier; all ranks must start the same collectives");
    if (timed_out)
      return cat("not done", within,
                 "all ranks are there, so the network is too slow, or raise "
                 "dist.timeout_s");
    return cat("a connection broke (", symptom, "); look at the network");
  }

  // Reports that this rank no longer needs the store. Rank 0, which serves it, waits up to 0.5 s
  // for this report of the other live ranks. Ignores errors of the store.
  void finish() {
    try {
      store_->set(key("finished", ranks_.rank), "");
      if (ranks_.rank) return;
      const auto end = std::chrono::steady_clock::now() + kFarewell;
      for (int r = 1; r < ranks_.world; ++r)
        if (!silent_.contains(r)) store_->wait(key("finished", r), until(end, Timeout(0)));
    } catch (const Error&) {
    }
  }

  static std::string named(const Names& ranks) {
    return (ranks.size() == 1 ? "rank " : "ranks ") + joined(ranks);
  }
  std::string key(const char* name, int rank) const { return cat(prefix_, name, "/", rank); }

  const std::shared_ptr<Store> store_;
  const Ranks ranks_;
  const double timeout_s_;
  const std::string prefix_;
  std::atomic<bool> reported_{false};
  std::set<int> silent_;  // ranks that did not report
};

// The debug check dist.check_collectives: all ranks must start the same collectives in one order.
// Compares `c` with the collective of the same sequence number on every other rank, through keys
// of the store that start with `prefix`. Returns a message that names two ranks and what each of
// them started, the same message on all ranks, or "" if all are equal. Throws Error, exit 7, if a
// rank starts none within dist.timeout_s. Call it for consecutive sequence numbers. Costs as many
// reads as there are ranks.
inline std::string differences_of(const Collective& c, const GroupContext& group,
                                  const std::string& prefix) {
  Store& store = *group.store;
  const auto end = std::chrono::steady_clock::now() + group.timeout();
  const auto key = [&](int64_t sequence, int rank) { return cat(prefix, sequence, "/", rank); };
  store.set(key(c.sequence, group.ranks.rank), description_of(c));
  Names started;
  for (int r = 0; r < group.ranks.world; ++r)
    started.push_back(store.get(key(c.sequence, r), until(end)));
  // All ranks have started this collective, so they have read the keys of earlier ones.
  if (c.sequence > 2) store.remove(key(c.sequence - 2, group.ranks.rank));
  for (int r = 1; r < group.ranks.world; ++r)
    if (started[r] != started[0])
      return cat("the ranks differ in collective ", c.sequence, ": rank 0 started \"", started[0],
                 "\", rank ", r, " \"", started[r],
                 "\"; all must start the same collectives in the same order");
  return "";
}

}  // namespace bellows
