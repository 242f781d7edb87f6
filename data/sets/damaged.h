// Handles samples that cannot be read, and names samples in errors.
#pragma once
#include <functional>
#include "core/tensor/tensor.h"
#include "data/sets/dataset.h"

namespace bellows {

enum class OnDamaged { error, skip };  // error: ends the run; skip: leaves them out

// Part of the samples that this rank tries, and a function that sums a host tensor over the ranks.
struct AcrossRanks {
  int rank = 0, world = 1;
  std::function<void(const Tensor&)> sum = {};  // empty in a world of one
};

// With OnDamaged::skip, returns the data set without the samples that cannot be read, else the data
// set itself. Reads every sample once, by one of the ranks, and warns of each damaged one. Throws
// Error(Exit::data) if none is left. Compute thread only. Counter: data.damaged_samples.
//
// Note [When damaged samples are found]: before training, not when a batch meets one. So an epoch
// has each readable sample once, and ranks, workers, `eval`, `pack` and a resumed run see the same
// set without a record in the checkpoint. Replacing a sample during training would need such a
// record, and an agreement of the ranks. The pass takes about a sixth of the time in which an epoch
// decodes and transforms photos.
DatasetPtr without_damaged(const DatasetPtr& dataset, OnDamaged on_damaged,
                           const AcrossRanks& ranks = {});

// Returns "sample 7 (path)".
std::string name_of_sample(const Dataset& dataset, int64_t index);

// Rethrows the current exception as an Error that begins with the sample's name. Exit::usage
// becomes Exit::data. With `on_damaged`, an Error(Exit::data) explains that option.
[[noreturn]] void rethrow_at_sample(const Dataset& dataset, int64_t index,
                                    std::optional<OnDamaged> on_damaged);
// Calls fn(); its exceptions leave through rethrow_at_sample().
template <class Fn>
void at_sample(const Dataset& dataset, int64_t index, std::optional<OnDamaged> on_damaged,
               const Fn& fn) {
  try {
    fn();
  } catch (...) {
    rethrow_at_sample(dataset, index, on_damaged);
  }
}

}  // namespace bellows
