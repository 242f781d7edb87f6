// Pooling: the largest or the mean of each window. f32 or f64; y keeps the memory format of x.
#pragma once
#include "core/kernel.h"

namespace bellows {

struct Pool2dOptions {
  int64_t kernel = 2, stride = 2;
  int64_t padding = 0;  // on each side: never the largest, zeros in a mean
};

// x (N, C, H, W): y (N, C, OH, OW) with OH = (H + 2 padding - kernel) / stride + 1.
// The gradient goes to the first of equal elements; NaN is larger than any number.
Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options = {});
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options = {});
// Window i of n covers [floor(i H / n), ceil((i + 1) H / n)).
Tensor adaptive_avg_pool2d(const Tensor& x, int64_t height, int64_t width);

// The windows along one axis: [begin, end) inside the image, `size` with the padding.
struct Window {
  int64_t begin, end, size;
};
using Windows = std::vector<Window>;

namespace kernels {
struct MaxPool {
  Tensor y;
  Tensor winner;  // i32, strides of y: h * W + w of the element in its image
};
inline constinit Kernel<MaxPool(const Tensor& x, const Windows& rows, const Windows& columns)>
    max_pool2d{"max_pool2d"};
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& winner, const Shape& x)>
    max_pool2d_backward{"max_pool2d_backward"};
inline constinit Kernel<Tensor(const Tensor& x, const Windows& rows, const Windows& columns)>
    avg_pool2d{"avg_pool2d"};
inline constinit Kernel<Tensor(const Tensor& dy, const Shape& x, const Windows& rows,
                               const Windows& columns)>
    avg_pool2d_backward{"avg_pool2d_backward"};
}  // namespace kernels
}  // namespace bellows
