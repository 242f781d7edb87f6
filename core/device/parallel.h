// parallel_for on the process's workers. The borders of its chunks do not depend on the number of
// threads, so sums have the same bits for any thread count.
#pragma once
#include <omp.h>
#include <algorithm>
#include <exception>
#include <mutex>
#include <vector>
#include "core/base/round.h"
#include "core/device/workers.h"

namespace bellows {

// Keeps this thread, and libraries that it calls, from opening parallel regions, during its
// lifetime.
class SingleThreadScope {
 public:
  SingleThreadScope() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~SingleThreadScope() { omp_set_num_threads(before_); }
  SingleThreadScope(SingleThreadScope&&) = delete;

 private:
  int before_;
};

namespace detail {
// Catches exceptions of a region's chunks, because an exception that left the region would end the
// process. Keeps the exception of the first chunk, which is the same for any number of threads.
class ChunkExceptions {
 public:
  void keep(int64_t chunk) {  // the exception being caught
    const std::lock_guard lock(mutex_);
    if (error_ && chunk_ < chunk) return;
    error_ = std::current_exception();
    chunk_ = chunk;
  }
  void rethrow() const {
    if (error_) [[unlikely]]
      std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
  int64_t chunk_ = 0;
};
}  // namespace detail

// Calls fn(begin, end) for each chunk of [0, n). A single chunk runs on this thread. Rethrows the
// exception of the first failing chunk after all others have run; on one thread, the chunks after
// it do not run.
template <class Fn> void parallel_for(int64_t n, int64_t chunk, const Fn& fn) {
  const int64_t chunks = ceil_div(n, chunk);
  const auto threads =
      chunks <= 1 ? 1 : static_cast<int>(std::min<int64_t>(omp_get_max_threads(), chunks));
  if (threads <= 1) {
    for (int64_t c = 0; c < chunks; ++c) fn(c * chunk, std::min(n, (c + 1) * chunk));
    return;
  }
  const SingleThreadScope nested;  // a region inside a chunk runs on the chunk's thread
  detail::ChunkExceptions thrown;
  const auto run = [&](int64_t c) {
    try {
      fn(c * chunk, std::min(n, (c + 1) * chunk));
    } catch (...) {
      thrown.keep(c);
    }
  };
  using Run = std::remove_const_t<decltype(run)>;
  run_chunks(chunks, threads,
             {&run, [](const void* body, int64_t c) { (*static_cast<const Run*>(body))(c); }});
  thrown.rethrow();
}

// Returns the sum of fn(begin, end) over the chunks, added in their order.
template <class Fn> double parallel_sum(int64_t n, int64_t chunk, const Fn& fn) {
  std::vector<double> parts(ceil_div(n, chunk));
  parallel_for(n, chunk, [&](int64_t b, int64_t e) { parts[b / chunk] = fn(b, e); });
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

}  // namespace bellows
