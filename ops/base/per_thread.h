// Scratch memory for kernels that run on several threads.
#pragma once
#include "core/device/parallel.h"
#include "core/tensor/tensor.h"

namespace bellows {

// `size` elements of T for each thread that may run a chunk, uninitialized. Construct it outside
// parallel regions, and call mine() inside one.
template <class T> class PerThread {
 public:
  explicit PerThread(int64_t size)
      : size_((size + 63) / 64 * 64),
        memory_({std::max(omp_get_max_threads(), 1 + worker_count()) * size_}, dtype_of<T>) {}
  T* mine() const { return memory_.ptr<T>() + worker_index() * size_; }

 private:
  int64_t size_;
  Tensor memory_;
};

}  // namespace bellows
