#include "data/gather_samples.h"

namespace bellows {

static void gather_cpu(const Tensor& x, const Tensor& y, const Tensor& pixels, const Tensor& labels,
                       const Tensor& order, const Gather& g) {
  const int64_t samples = order.numel(), plane = x.dim(2) * x.dim(3), bytes = x.dim(1) * plane;
  for (int64_t b = 0; b < x.dim(0); ++b) {
    const int64_t sample = order.data<int64_t>()[g.share.at(g.first + b, samples)];
    y.data<int64_t>()[b] = labels.data<int64_t>()[sample];
    const auto in = pixels.data<uint8_t>().subspan(sample * bytes, bytes);
    const auto out = x.data<float>().subspan(b * bytes, bytes);
    for (int64_t i = 0; i < bytes; ++i) out[i] = g.levels.at(int(i / plane), in[i]);
  }
}
static const bool cpu = kernels::gather_samples.on(Device::cpu, gather_cpu);

}  // namespace bellows
