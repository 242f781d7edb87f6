#include "data/feeds/augment.h"

namespace bellows {

template <class T>
static void augment(const Tensor& x, const Tensor& y, const Tensor& pixels, const Tensor& labels,
                    const Tensor& samples, const Recipe& recipe) {
  const Strides& by = x.strides();
  Planes in{pixels.ptr<uint8_t>(), pixels.dim(1), pixels.dim(2), pixels.dim(3)};
  const uint8_t* const all = in.bytes;
  for (int64_t b = 0; b < x.dim(0); ++b) {
    const int64_t sample = samples.ptr<int64_t>()[b];
    if (labels.defined()) y.data<int64_t>()[b] = labels.data<int64_t>()[sample];
    in.bytes = all + (labels.defined() ? sample : b) * in.channels * in.height * in.width;
    const Frame frame = recipe.frame(sample, in.height, in.width);
    for (int64_t row = 0; row < x.dim(2); ++row)
      for (int64_t column = 0; column < x.dim(3); ++column)
        write_pixel(x.ptr<T>() + b * by[0] + row * by[2] + column * by[3], by[1], in, frame,
                    recipe.levels, row, column);
  }
}

static void augment_cpu(const Tensor& x, const Tensor& y, const Tensor& pixels,
                        const Tensor& labels, const Tensor& samples, const Recipe& recipe) {
  visit_stored(x.dtype(), [&]<class T>(T) { augment<T>(x, y, pixels, labels, samples, recipe); });
}
static const bool cpu = kernels::augment.on(Device::cpu, augment_cpu);

}  // namespace bellows
