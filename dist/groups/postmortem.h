// Postmortem: finds out, over the store, which rank made a collective fail, and why.
#pragma once
#include <atomic>
#include <set>
#include "dist/groups/flight_recorder.h"
#include "dist/rendezvous/rendezvous.h"

namespace bellows {

// Thread-safe. A live rank reports how far it got as soon as it sees a connection break. From these
// reports the others learn which ranks are dead, stuck or late.
class Postmortem {
 public:
  // `prefix` begins the names of its keys in the store.
  Postmortem(std::shared_ptr<Store> store, const Ranks& ranks, const std::string& prefix)
      : store_(std::move(store)), ranks_(ranks), prefix_(prefix) {}

  // Publishes the cause of the failure, unless another rank has done so. Call it before closing
  // connections. Ignores errors of the store.
  void leave(const std::string& cause);
  // Reports the number of collectives that this rank has started. `timed_out`: one of them took too
  // long, and no connection broke. Later calls do nothing. Ignores errors of the store.
  void report(int64_t started, bool timed_out);
  // Returns true once a rank has published a cause or a report, so the group has failed. Returns
  // false if the store does not answer.
  bool failed() const;
  // Returns the published cause, or "".
  std::string cause() const;
  // Returns why `c`, which this rank has reported, failed: the published cause, or which ranks are
  // dead, stuck or late. Waits up to 0.9 s for their reports. `symptom`: the library's message.
  std::string why(const Collective& c, bool timed_out, double timeout_s,
                  const std::string& symptom);
  // Reports that this rank no longer needs the store. Rank 0, which serves it, waits up to 0.5 s
  // for this report of the other live ranks. Ignores errors of the store.
  void finish();

 private:
  std::string find(const Collective& c, bool timed_out, double timeout_s,
                   const std::string& symptom);
  std::string key(const char* name, int rank) const { return cat(prefix_, name, "/", rank); }

  const std::shared_ptr<Store> store_;
  const Ranks ranks_;
  const std::string prefix_;
  std::atomic<bool> reported_{false};
  std::set<int> silent_;  // ranks that did not report
};

}  // namespace bellows
