// Einsum on the GPU: one thread per element of y, which sums over the dropped letters in double.
#include "core/tensor/map.cuh"
#include "ops/matmul/einsum.h"
#include "ops/matmul/einsum_nest.h"

namespace bellows {

namespace {

constexpr int kTensors = 8, kSummed = 26;  // y and its inputs; letters missing in y

// The loop nest as a kernel argument.
struct Loops {
  struct One {
    int64_t size, steps[kTensors];
  };
  One out[kMaxRank], summed[kSummed];
  int n_out, n_summed, n_tensors;
  int64_t elements, terms;  // elements of y; terms of each sum
};

template <class T> struct Operands { T* at[kTensors]; };

template <class T> __global__ void sum_products(Operands<T> data, Loops loops) {
  await_predecessor();
  for (int64_t i = thread_index(); i < loops.elements; i += thread_count()) {
    int64_t first[kTensors] = {};
    advance(loops.out, loops.n_out, i, first, kTensors);
    double sum = 0;
    for (int64_t term = 0; term < loops.terms; ++term) {
      int64_t at[kTensors];
      for (int t = 0; t < kTensors; ++t) at[t] = first[t];
      advance(loops.summed, loops.n_summed, term, at, kTensors);
      double product = 1;
      for (int t = 1; t < kTensors; ++t)  // constant bound: `at` stays in registers
        if (t < loops.n_tensors) product *= double(Acc<T>(data.at[t][at[t]]));
      sum += product;
    }
    data.at[0][first[0]] = T(Acc<T>(sum));
  }
}

void put(const std::vector<EinsumLoop>& from, Loops::One* to) {
  for (const EinsumLoop& loop : from) {
    to->size = loop.size;
    std::ranges::copy(loop.steps, to++->steps);
  }
}

Loops loops_of(const EinsumNest& nest, size_t tensors) {
  CHECK(tensors <= kTensors && nest.summed.size() <= kSummed, "einsum: ", tensors - 1,
        " inputs and ", nest.summed.size(), " summed letters; on a device at most ", kTensors - 1,
        " and ", kSummed);
  Loops loops{};
  put(nest.out, loops.out);
  put(nest.summed, loops.summed);
  loops.n_out = int(nest.out.size());
  loops.n_summed = int(nest.summed.size());
  loops.n_tensors = int(tensors);
  loops.elements = nest.elements();
  loops.terms = iterations(nest.summed);
  return loops;
}

Tensor einsum_cuda(TensorSpan inputs, const std::vector<std::string>& terms, const std::string& out,
                   const Shape& shape) {
  const Tensor y = full(shape, 0, inputs.front());
  Tensors tensors{y};
  tensors.insert(tensors.end(), inputs.begin(), inputs.end());
  const Loops loops = loops_of(plan_nest(out, terms, tensors), tensors.size());
  if (loops.elements == 0) return y;
  visit_stored(y.dtype(), [&]<class T>(T) {
    Operands<T> data{};
    for (size_t t = 0; t < tensors.size(); ++t) data.at[t] = tensors[t].ptr<T>();
    launch(sum_products<T>, grid_of(loops.elements), data, loops);
  });
  return y;
}
const bool gpu = kernels::einsum.on(Device::cuda, einsum_cuda);

}  // namespace
}  // namespace bellows
