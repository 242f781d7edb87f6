#include "data/gather_samples.h"
#include "core/launch.cuh"

namespace bellows {

struct Samples {
  const uint8_t* pixels;
  const int64_t *labels, *order;
  int64_t count, plane, bytes;  // of all; of a channel; of a sample
};

static __global__ void gather(float* x, int64_t* y, int64_t batch, Samples s, Gather g) {
  for (int64_t i = thread_index(); i < batch * s.bytes; i += thread_count()) {
    const int64_t b = i / s.bytes, at = i % s.bytes;
    const int64_t sample = s.order[g.share.at(g.first + b, s.count)];
    x[i] = g.levels.at(int(at / s.plane), s.pixels[sample * s.bytes + at]);
    if (at == 0) y[b] = s.labels[sample];
  }
}

static void gather_cuda(const Tensor& x, const Tensor& y, const Tensor& pixels,
                        const Tensor& labels, const Tensor& order, const Gather& g) {
  const int64_t plane = x.dim(2) * x.dim(3);
  const Samples s{pixels.ptr<uint8_t>(), labels.ptr<int64_t>(), order.ptr<int64_t>(),
                  order.numel(),         plane,                 x.dim(1) * plane};
  launch(gather, grid_of(x.numel()), x.ptr<float>(), y.ptr<int64_t>(), x.dim(0), s, g);
}
static const bool gpu = kernels::gather_samples.on(Device::cuda, gather_cuda);

}  // namespace bellows
