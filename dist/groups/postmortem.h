// Postmortem: finds out, over the store, which rank made a collective fail, and why.
#pragma once
#include <atomic>
#include <functional>
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
  // connections. Takes up to 0.5 s. Ignores errors of the store.
  void leave(const std::string& cause);
  // Reports the number of collectives that this rank has started. `timed_out`: one of them took too
  // long, and no connection broke. Later calls do nothing. Ignores errors of the store.
  void report(int64_t started, bool timed_out);
  // Returns true once a rank has published a cause or a report, so the group has failed. Returns
  // false if the store does not answer.
  bool failed() const;
  // Calls report(), then `close`, which makes the other ranks fail and report as well. Returns why
  // `c` failed: the published cause, or which ranks are dead, stuck or late. Takes up to 1.2 s,
  // also if rank 0 is stuck; later requests to the store fail. `symptom`: the library's message.
  std::string why(const Collective& c, int64_t started, bool timed_out, double timeout_s,
                  const std::string& symptom, const std::function<void()>& close);

 private:
  std::string cause() const;
  void finish();
  std::string find(const Collective& c, bool timed_out, double timeout_s,
                   const std::string& symptom);
  std::string key(const char* name, int rank) const { return cat(prefix_, name, "/", rank); }

  const std::shared_ptr<Store> store_;
  const Ranks ranks_;
  const std::string prefix_;
  std::atomic<bool> reported_{false};
  std::set<int> silent_;  // ranks that did not report
};

// The debug check dist.check_collectives: all ranks must start the same collectives in one order.
// Compares `c` with the collective of the same sequence number on every other rank, through keys
// of the store that start with `prefix`. Returns a message that names two ranks and what each of
// them started, the same message on all ranks, or "" if all are equal. Throws Error, exit 7, if a
// rank starts none within `timeout`. Call it for consecutive sequence numbers. Costs as many reads
// as there are ranks.
std::string differences_of(const Collective& c, Store& store, const std::string& prefix,
                           const Ranks& ranks, Timeout timeout);

}  // namespace bellows
