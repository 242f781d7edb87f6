#include "data/loader/loader_law.h"
#include <algorithm>
#include <cmath>

namespace bellows {

double LoaderLaw::batch_cost(int64_t workers) const {
  return workers == 0 ? load_s + compute_s
                      : std::max(compute_s, load_s / static_cast<double>(workers));
}

int64_t LoaderLaw::knee() const {
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(load_s / compute_s - 1e-9)));
}

std::optional<LoaderLaw> fit_law(const std::vector<WorkerCost>& measured) {
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
