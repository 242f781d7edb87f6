#include "core/base/round.h"
#include "core/device/launch.cuh"
#include "data/sets/arrays.h"

namespace bellows {

namespace {
struct Rows {
  const int64_t *offsets, *samples;  // offsets: null if a sample is one row
  int64_t width, room;               // elements of a row of flat, of a sample of out
};
}  // namespace

// Grid (B, blocks per sample). Per element of out: reads one element of flat at most, writes one.
template <class To, class From>
static __global__ void collate(To* out, const From* flat, Rows rows, To fill) {
  const int64_t b = blockIdx.x, sample = rows.samples[b];
  const int64_t begin = (rows.offsets ? rows.offsets[sample] : sample) * rows.width;
  const int64_t end = (rows.offsets ? rows.offsets[sample + 1] : sample + 1) * rows.width;
  for (int64_t i = int64_t(blockIdx.y) * blockDim.x + threadIdx.x; i < rows.room;
       i += int64_t(gridDim.y) * blockDim.x)
    out[b * rows.room + i] = begin + i < end ? To(flat[begin + i]) : fill;
}

static void collate_cuda(const Tensor& out, const Tensor& flat, const Tensor& offsets,
                         const Tensor& samples, double fill) {
  constexpr int64_t kMostBlocks = 1 << 10;  // blocks per sample
  const Rows rows{offsets.defined() ? offsets.ptr<int64_t>() : nullptr, samples.ptr<int64_t>(),
                  flat.numel() / flat.dim(0), out.numel() / out.dim(0)};
  const int64_t blocks = std::min(ceil_div(rows.room, int64_t(kThreads)), kMostBlocks);
  const Grid grid{dim3(unsigned(out.dim(0)), unsigned(blocks)), dim3(kThreads), 0};
  visit_rows(out, flat, [&]<class To, class From>(To, From) {
    launch(collate<To, From>, grid, out.ptr<To>(), flat.ptr<From>(), rows, To(fill));
  });
}
static const bool gpu = kernels::collate.on(Device::cuda, collate_cuda);

}  // namespace bellows
