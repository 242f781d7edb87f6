// The law of loader workers: with L to load a batch and C to compute a step, a step takes L + C
// without workers and max(C, L / W) with W workers.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace bellows {

struct LoaderLaw {
  double load_s = 0, compute_s = 0;  // L and C
  double batch_cost(int64_t workers) const;
  int64_t knee() const;  // ceil(L / C): more workers gain nothing
};

struct WorkerCost {
  int64_t workers = 0;
  double batch_s = 0, reader_s = 0;  // measured: time of a step, and its part spent waiting
};
// Returns the law of measured arms. A step computes while it does not wait, so C is the geometric
// mean of batch_s - reader_s. L is that of reader_s without workers and of W x batch_s in the arms
// that wait for a tenth of the step or more. Empty if no arm shows L.
std::optional<LoaderLaw> fit_law(const std::vector<WorkerCost>& measured);

}  // namespace bellows
