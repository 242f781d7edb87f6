// Postmortem: finds out, over the store, which rank made a collective fail, and why.
#pragma once
#include <atomic>
#include <set>
#include "dist/groups/flight_recorder.h"
#include "dist/rendezvous/rendezvous.h"

namespace bellows {

// Any thread. A rank that lives reports how far it got as soon as it sees a connection break. The
// others learn from that which ranks are dead, stuck or late.
class Postmortem {
 public:
  // Its keys of the store start with `prefix`.
  Postmortem(std::shared_ptr<Store> store, const Ranks& ranks, const std::string& prefix)
      : store_(std::move(store)), ranks_(ranks), prefix_(prefix) {}

  // Leaves a cause for all ranks, unless another rank was first. Call it before closing
  // connections. Errors of the store are ignored.
  void leave(const std::string& cause);
  // Reports the number of collectives that this rank has started. `timed_out`: one of them took too
  // long, and no connection broke. Only the first call counts. Errors of the store are ignored.
  void report(int64_t started, bool timed_out);
  // Returns true once a rank has left a cause or reported: the group has failed. Asks the store,
  // and returns false if that does not answer.
  bool failed() const;
  // Returns the cause that a rank has left, or "".
  std::string cause() const;
  // Returns why `c`, which this rank has reported, failed: the cause of a rank, or which ranks are
  // dead, stuck or late. Waits 0.9 s at most for their reports. `symptom`: of the library.
  std::string why(const Collective& c, bool timed_out, double timeout_s,
                  const std::string& symptom);
  // Reports that this rank needs the store no more. Rank 0, which serves it, waits up to 0.5 s
  // for the same from others that live. Errors of the store are ignored.
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
