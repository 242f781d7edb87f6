// Consensus: what the ranks of a run decide together, so that all of them stop, save or fail after
// the same update.
#pragma once
#include <optional>
#include <vector>
#include "dist/groups/process_group.h"
#include "trainer/run/signals.h"

namespace bellows {

// An error that every rank throws after the same update, so no rank has to report it to the others.
struct AgreedError : Error {
  using Error::Error;
};

// After each update every rank contributes its signals, its loss and its failure to one small
// all_reduce. Its result is read after the next update, so nothing waits for it: ranks act one
// update later. In a world of one there is no collective, and everything is known at once. For the
// compute thread only.
class Consensus {
 public:
  // `group`: for tensors in host memory.
  Consensus(ProcessGroup& group, Signals& signals) : group_(group), signals_(signals) {}

  // Ends an update. `loss`: its mean over this rank's samples, times their weight; null if it is
  // not known yet. All ranks know theirs, or none does. Throws as settle() does.
  void end_update(const double* loss);
  // Waits for the results of the last update. Throws an AgreedError on all ranks if one has
  // announced a failure, with its exit code.
  void settle();
  // Like settle(), but also shares everything since that update.
  void settle_now();
  // Announces that the run has to end with this error. Throws it in a world of one.
  void announce(const Error& error);

  int stop() const;          // SIGINT or SIGTERM once a rank has received it, else 0
  bool take_save_request();  // true once after one or more SIGUSR1
  // Means over the ranks of the losses of end_update(). Clears the list.
  std::vector<double> take_losses() { return std::exchange(losses_, {}); }

  // Returns the means over the ranks of values that every rank has. Waits for the other ranks.
  std::vector<double> means(const std::vector<double>& mine);
  // Returns the values of all ranks, by rank: m values of each. Waits for the other ranks.
  std::vector<double> gather(const std::vector<double>& mine);
  bool alone() const { return group_.world() == 1; }

 private:
  void contribute(const double* loss);

  ProcessGroup& group_;
  Signals& signals_;
  Tensor votes_;                  // f64, on their way
  Work work_ = {};                // without wait: no votes are on their way
  std::optional<Error> failure_;  // this rank's
  int stop_ = 0;
  bool save_ = false;
  std::vector<double> losses_;
};

}  // namespace bellows
