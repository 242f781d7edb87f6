// What becomes of a sample that cannot be read, and how it is told.
#pragma once
#include <functional>
#include "data/sets/dataset.h"

namespace bellows {

enum class OnDamaged {
  error,      // the run ends
  skip,       // the next sample that can be read stands in for it
  leave_out,  // as well, labelled kLeftOut: what `skip` is to an evaluation
};
inline constexpr int64_t kLeftOut = -1;

// read(i) for i = index; unless with `error`, if that throws Error(Exit::data), for the samples
// that follow until one can be read. Each that is skipped counts in data.damaged; the first time
// also in data.damaged_samples, and is told about with its origin. Thread-safe. Gives up after
// kMostInARow: then it is not the sample.
Sample read_undamaged(const Dataset& dataset, int64_t index, OnDamaged on_damaged,
                      const std::function<Sample(int64_t)>& read);
inline constexpr int64_t kMostInARow = 16;

// "sample 7 (path)"
std::string name_of_sample(const Dataset& dataset, int64_t index);

// What is being thrown, as an Error that begins with the sample's name; data, if it was usage.
[[noreturn]] void rethrow_at_sample(const Dataset& dataset, int64_t index);
template <class Fn> void at_sample(const Dataset& dataset, int64_t index, const Fn& fn) {
  try {
    fn();
  } catch (...) {
    rethrow_at_sample(dataset, index);
  }
}

}  // namespace bellows
