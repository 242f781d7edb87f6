#include "core/base/divisor.h"
#include "core/base/round.h"
#include "core/device/launch.cuh"
#include "core/device/shared.cuh"
#include "data/feeds/augment.h"

namespace bellows {

namespace {

struct Source {
  Planes planes;                    // pixels of all samples, or of the batch only
  const int64_t *labels, *samples;  // labels: null if `planes` holds only the batch
};

template <class T> struct Target {
  T* x;
  int64_t* y;
  int64_t sample, channel, row, column;  // strides of x, in elements
  int pixels;
  Divisor width;
};

}  // namespace

// Grid (B, blocks per image); 256 threads per block, up to 8 pixels per thread (more in images
// above 2^26 pixels), each with all its channels. Thread 0 computes the Frame of the sample into
// shared memory, sizeof(Frame) bytes. Per element of x: reads 1 byte, writes sizeof(T) bytes.
template <class T> static __global__ void augment(Target<T> to, Source from, Recipe recipe) {
  Frame& frame = *dynamic_shared<Frame>();
  Planes in = from.planes;
  const int64_t b = blockIdx.x;
  const int64_t sample = from.samples[b];
  if (threadIdx.x == 0) frame = recipe.frame(sample, in.height, in.width);
  __syncthreads();
  in.bytes += (from.labels ? sample : b) * in.channels * in.height * in.width;
  const int begin = int(blockIdx.y * blockDim.x + threadIdx.x);
  if (begin == 0 && from.labels) to.y[b] = from.labels[sample];
  for (int i = begin; i < to.pixels; i += int(gridDim.y * blockDim.x)) {
    const int row = i / to.width, column = i % to.width;
    write_pixel(to.x + b * to.sample + row * to.row + column * to.column, to.channel, in, frame,
                recipe.levels, row, column);
  }
}

static void augment_cuda(const Tensor& x, const Tensor& y, const Tensor& pixels,
                         const Tensor& labels, const Tensor& samples, const Recipe& recipe) {
  constexpr int64_t kPixels = 8 * kThreads;  // per block
  constexpr int64_t kMostBlocks = 1 << 15;   // per image
  const Strides& by = x.strides();
  const int64_t* const labels_ = labels.defined() ? labels.ptr<int64_t>() : nullptr;
  const Source from{{pixels.ptr<uint8_t>(), pixels.dim(1), pixels.dim(2), pixels.dim(3)},
                    labels_,
                    samples.ptr<int64_t>()};
  const int64_t area = x.dim(2) * x.dim(3);
  const int64_t blocks = std::min(ceil_div(area, kPixels), kMostBlocks);
  const Grid grid{dim3(unsigned(x.dim(0)), unsigned(blocks)), dim3(kThreads), sizeof(Frame)};
  visit_stored(x.dtype(), [&]<class T>(T) {
    const Target<T> to{x.ptr<T>(), labels_ ? y.ptr<int64_t>() : nullptr,
                       by[0],      by[1],
                       by[2],      by[3],
                       int(area),  Divisor(x.dim(3))};
    launch(augment<T>, grid, to, from, recipe);
  });
}
static const bool gpu = kernels::augment.on(Device::cuda, augment_cuda);

}  // namespace bellows
