// Kernels over lists of tensors. The list is a kernel argument, and each block takes a chunk.
#pragma once
#include "core/base/round.h"
#include "core/device/shared.cuh"
#include "core/tensor/foreach.h"
#include "core/tensor/line.cuh"

namespace bellows {

// Up to kMost tensors, divided into chunks of kLength elements (the last of each may be shorter).
// An object is 11 kB; a kernel takes up to 32 kB of arguments.
class Chunks {
 public:
  static constexpr int kMost = 512;
  static constexpr int64_t kLength = 16384;

  // Takes the tensors from index `from` on, at most kMost. Throws Error, exit 2, unless all are
  // dense and floating-point.
  Chunks(const char* op, TensorSpan list, size_t from) {
    for (const Tensor& t : list.subspan(from, std::min<size_t>(list.size() - from, kMost))) {
      CHECK(t.is_dense() && is_float(t.dtype()), op, ": ", t.dtype(), " with strides ", t.strides(),
            " is not dense and floating-point");
      add(t);
    }
  }
  static int chunks_of(const Tensor& t) { return int(ceil_div(t.numel(), kLength)); }

  int count() const { return first_[size_]; }

  // Calls fn(pointer, n) for a chunk: its first element, as the tensor's type, and its length.
  template <class Fn> __device__ void visit(int chunk, const Fn& fn) const {
    const int i = entry_at(chunk, first_, size_);
    const int64_t begin = (chunk - first_[i]) * kLength, n = std::min(n_[i] - begin, +kLength);
    const auto call = [&]<class T>(T) { fn(reinterpret_cast<T*>(at_[i]) + begin, n); };
    if (dtype_[i] == DType::f32) call(float());
    if (dtype_[i] == DType::f64) call(double());
    if (dtype_[i] == DType::bf16) call(Bf16());
    if (dtype_[i] == DType::f16) call(F16());
  }

 private:
  void add(const Tensor& t) {
    at_[size_] = t.bytes();
    n_[size_] = t.numel();
    dtype_[size_] = t.dtype();
    first_[size_ + 1] = first_[size_] + chunks_of(t);
    ++size_;
  }

  std::byte* at_[kMost] = {};
  int64_t n_[kMost] = {};
  DType dtype_[kMost] = {};
  int first_[kMost + 1] = {};
  int size_ = 0;
};

// Calls fn(x, y, n) with the same chunk of two lists of equal shapes and dtypes.
template <class Fn>
__device__ void visit_pair(const Chunks& a, const Chunks& b, int chunk, const Fn& fn) {
  a.visit(chunk, [&]<class T>(T* x, int64_t n) {
    b.visit(chunk, [&]<class U>(U* y, int64_t) {
      if constexpr (std::is_same_v<T, U>) fn(x, y, n);
    });
  });
}

// Calls fn(chunks) for parts of the list of dense tensors, as few times as possible.
template <class Fn> void for_chunks(const char* op, TensorSpan list, const Fn& fn) {
  for (size_t from = 0; from < list.size(); from += Chunks::kMost) {
    const Chunks chunks(op, list, from);
    if (chunks.count() > 0) fn(chunks);
  }
}
// Calls fn(chunks of a, chunks of b).
template <class Fn> void for_pairs(const char* op, TensorSpan a, TensorSpan b, const Fn& fn) {
  for (size_t from = 0; from < a.size(); from += Chunks::kMost) {
    const Chunks chunks(op, a, from);
    if (chunks.count() > 0) fn(chunks, Chunks(op, b, from));
  }
}

// ---- Sum of the squares of all elements of a list. One block per chunk; the block that ends last
// adds the blocks' sums. Blocks add in double, as the CPU does, in an order that depends only on
// the sizes, so every run has the same bits.

namespace detail {

static __device__ unsigned norm_ticket;

// parts: n sums, one per block, those of earlier launches first. Shared memory: one double per
// warp.
template <class Finish>
__global__ void sum_squares(const __grid_constant__ Chunks chunks, double* parts, int n, bool last,
                            Finish finish) {
  double squares = 0;
  chunks.visit(blockIdx.x, [&]<class T>(const T* t, int64_t length) {
    const auto take = [&](int64_t, double value) { squares += value * value; };
    for_line<T>(length, Team{int(blockDim.x)}, take, t);
  });
  squares = block_sum(squares, dynamic_shared<double>());
  if (threadIdx.x == 0) parts[n - gridDim.x + blockIdx.x] = squares;
  if (!last || !is_last_block(&norm_ticket)) return;
  double sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += parts[i];
  sum = block_sum(sum, dynamic_shared<double>());
  if (threadIdx.x == 0) finish(sum);
}

template <class Finish> __global__ void finish_nothing(Finish finish) { finish(0.); }

}  // namespace detail

// Calls finish(sum) on one thread of the device. Returns the number of launches: one per
// Chunks::kMost tensors.
template <class Finish> int64_t sum_of_squares(TensorSpan list, const Finish& finish) {
  int all = 0, done = 0;
  int64_t launches = 0;
  for (const Tensor& t : list) all += Chunks::chunks_of(t);
  if (!all) return launch(detail::finish_nothing<Finish>, {1, 1}, finish), 1;
  const Tensor parts({all}, DType::f64, Device::cuda);
  for_chunks("norm_of", list, [&](const Chunks& chunks) {
    done += chunks.count();
    ++launches;
    launch(detail::sum_squares<Finish>,
           {unsigned(chunks.count()), kThreads, kThreads / kWarp * sizeof(double)}, chunks,
           parts.ptr<double>(), done, done == all, finish);
  });
  return launches;
}

}  // namespace bellows
