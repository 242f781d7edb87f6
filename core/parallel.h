// parallel_for on the process's one OpenMP pool. Work is cut into chunks whose borders do not
// depend on the number of threads, so sums have the same bits for any of them.
//
// Only the compute thread may call these: libgomp keeps a team per calling thread, so a loader
// thread that opened a region would bring a second one.
#pragma once
#include <omp.h>
#include <algorithm>
#include <cstdint>
#include <vector>

namespace bellows {

// fn(begin, end) for each chunk of [0, n). A single chunk runs here, without waking anybody.
template <class Fn> void parallel_for(int64_t n, int64_t chunk, const Fn& fn) {
  const int64_t chunks = (n + chunk - 1) / chunk;
  if (chunks <= 1 || omp_get_max_threads() == 1 || omp_in_parallel()) {
    for (int64_t c = 0; c < chunks; ++c) fn(c * chunk, std::min(n, (c + 1) * chunk));
    return;
  }
#pragma omp parallel for schedule(static)
  for (int64_t c = 0; c < chunks; ++c) fn(c * chunk, std::min(n, (c + 1) * chunk));
}

// Sum of fn(begin, end) over the chunks, added in their order.
template <class Fn> double parallel_sum(int64_t n, int64_t chunk, const Fn& fn) {
  std::vector<double> parts((n + chunk - 1) / chunk);
  parallel_for(n, chunk, [&](int64_t b, int64_t e) { parts[b / chunk] = fn(b, e); });
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

}  // namespace bellows
