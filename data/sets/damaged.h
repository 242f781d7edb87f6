// Handles samples that cannot be read, and names samples in errors.
#pragma once
#include <functional>
#include "data/sets/dataset.h"

namespace bellows {

enum class OnDamaged {
  error,      // the run ends
  skip,       // the next readable sample replaces it
  leave_out,  // the same, labeled kLeftOut: `skip` for evaluation
};
inline constexpr int64_t kLeftOut = -1;

// Returns read(index). If that throws Error(Exit::data), rethrows it with OnDamaged::error, else
// tries the samples that follow until one can be read. Throws Error(Exit::data) after kMostInARow
// failures: the cause is then not a single sample. Thread-safe if `read` is. Counters: data.damaged
// for each skip; data.damaged_samples for each sample, with a warning that names its origin.
Sample read_undamaged(const Dataset& dataset, int64_t index, OnDamaged on_damaged,
                      const std::function<Sample(int64_t)>& read);
inline constexpr int64_t kMostInARow = 1000;

// Returns the origins of the samples that this process has skipped, each once, sorted.
std::vector<std::string> skipped_samples();

// Returns "sample 7 (path)".
std::string name_of_sample(const Dataset& dataset, int64_t index);

// Rethrows the current exception as an Error that begins with the sample's name. Exit::usage
// becomes Exit::data.
[[noreturn]] void rethrow_at_sample(const Dataset& dataset, int64_t index);
// Calls fn(); its exceptions leave through rethrow_at_sample().
template <class Fn> void at_sample(const Dataset& dataset, int64_t index, const Fn& fn) {
  try {
    fn();
  } catch (...) {
    rethrow_at_sample(dataset, index);
  }
}

}  // namespace bellows
