// NCCL's process group in a world of one, on any GPU.
#pragma once
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "dist/groups/process_group.h"

namespace bellows {

// Element i of a tensor on any device; waits for the current stream.
inline double at(const Tensor& t, int64_t i) {
  const Tensor host = to(Device::cpu, t);
  return visit_dtype(t.dtype(), [&]<class T>(T) { return convert<double>(host.ptr<T>()[i]); });
}
inline Tensor on_gpu(int64_t n, double value, DType dtype = DType::f32) {
  const Tensor t({n}, dtype, Device::cuda);
  fill(t, value);
  return t;
}

// As  dist.backend: nccl  makes it without a launcher, on the compute stream.
struct NcclAlone {
  explicit NcclAlone(double timeout_s = 20) {
    GroupContext context;
    context.device = Device::cuda;
    context.options.timeout_s = timeout_s;
    group = Choice<MakeGroup>("nccl").make(context);
    group->step = 12;
  }
  std::unique_ptr<ProcessGroup> group;
};

}  // namespace bellows
