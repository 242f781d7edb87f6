// The law of loader workers: with L to load a batch and C to compute a step, a step takes L + C
// without workers and max(C, L / W) with W workers.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

namespace bellows {

struct LoaderLaw {
  double load_s = 0, compute_s = 0;  // L and C
  double batch_cost(int64_t workers) const {
    return workers == 0 ? load_s + compute_s
                        : std::max(compute_s, load_s / static_cast<double>(workers));
  }
  // Returns ceil(L / C), beyond which more workers gain nothing.
  int64_t knee() const {
    return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(load_s / compute_s - 1e-9)));
  }
};

struct WorkerCost {
  int64_t workers = 0;
  double batch_s = 0, reader_s = 0;  // measured: time of a step, and its part spent waiting
};
// Returns the law of measured arms. A step computes while it does not wait, so C is the geometric
// mean of batch_s - reader_s. L is the geometric mean of reader_s (no workers) and W x batch_s (W
// workers) over the arms that wait for a tenth of the step or more. Empty if no arm shows L.
inline std::optional<LoaderLaw> fit_law(const std::vector<WorkerCost>& measured) {
  constexpr double kWaits = 0.1;
  double compute = 0, load = 0, waiting = 0;  // sums of logarithms, and the arms that wait
  for (const auto& [workers, batch_s, reader_s] : measured) {
    compute += std::log(batch_s - reader_s);
    if (workers > 0 && reader_s < kWaits * batch_s) continue;
    load += std::log(workers ? static_cast<double>(workers) * batch_s : reader_s);
    ++waiting;
  }
  if (waiting == 0) return {};
  return LoaderLaw{std::exp(load / waiting),
                   std::exp(compute / static_cast<double>(measured.size()))};
}

}  // namespace bellows
