// Max and average pooling. f64, f32, bf16 or f16; y keeps the memory format of x.
#pragma once
#include "core/base/divisor.h"
#include "core/tensor/kernel.h"

namespace bellows {

struct Pool2dOptions {
  int64_t kernel = 2, stride = 2;
  int64_t padding = 0;  // on each side, up to kernel / 2: ignored by max, zeros in a mean
};

// x: (N, C, H, W). Returns y: (N, C, OH, OW) with OH = (H + 2 padding - kernel) / stride + 1, and
// OW alike. Throws (exit 2) if the window does not fit. A maximum's gradient goes to the first of
// equal elements, and NaN counts as the largest value. A mean divides by kernel * kernel, padding
// included.
Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options = {});
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options = {});
// Output i of n is the mean over [floor(i H / n), ceil((i + 1) H / n)) along each axis. Returns (N,
// C, height, width).
Tensor adaptive_avg_pool2d(const Tensor& x, int64_t height, int64_t width);

// A window: [begin, end) is clipped to the image; `size` includes the padding.
struct Window {
  int64_t begin, end, size;
};
// Windows along one axis, computed by formula, so that a GPU needs no table.
class Windows {
 public:
  static Windows sliding(int64_t image, const Pool2dOptions& o) {
    return Windows(image, (image + 2 * o.padding - o.kernel) / o.stride + 1, o);
  }
  static Windows even(int64_t image, int64_t count) { return Windows(image, count, {0, 1, 0}); }

  HD int64_t size() const { return count_; }
  HD Window operator[](int64_t i) const {
    if (kernel_ == 0) {
      const int64_t begin = i * image_ / count_, end = ((i + 1) * image_ + count_ - 1) / count_;
      return {begin, end, end - begin};
    }
    const int64_t begin = start(i);
    return {begin < 0 ? 0 : begin, begin + kernel_ < image_ ? begin + kernel_ : image_, kernel_};
  }
  // For sliding windows: their size, and the position of the first element, padding included.
  HD int kernel() const { return kernel_; }
  HD int start(int64_t i) const { return int(i) * stride_.size - padding_; }

  // Returns the range of the windows that contain position h of the image.
  struct Range {
    int begin, end;
  };
  HD Range containing(int h) const {
    const int at = h + padding_;
    int begin, end;
    if (kernel_ == 0) {
      begin = int(int64_t(h) * count_ / image_);
      end = int((int64_t(h + 1) * count_ - 1) / image_) + 1;
    } else {
      begin = at < kernel_ ? 0 : (at - kernel_) / stride_ + 1;
      end = at / stride_ + 1;
    }
    return {begin, end < count_ ? end : count_};
  }

 private:
  Windows(int64_t image, int64_t count, const Pool2dOptions& o)
      : image_(int(image)),
        count_(int(count)),
        kernel_(int(o.kernel)),
        padding_(int(o.padding)),
        stride_(o.stride) {}

  int image_, count_, kernel_, padding_;  // kernel 0: even windows
  Divisor stride_;
};

namespace kernels {
// winner: strides of y. Element b of row a of a window, padding included, is a * columns.kernel() +
// b. u8, or i32 if windows have more than 256 elements. Windows must be sliding.
struct MaxPool {
  Tensor y, winner;
};
// Tensors with the shape of y and the memory format of x, uninitialized.
inline Tensor pooled(const Tensor& x, DType dtype, const Windows& rows, const Windows& columns) {
  return {{x.dim(0), x.dim(1), rows.size(), columns.size()}, dtype, x.device(), format_of(x)};
}
inline MaxPool max_pooled(const Tensor& x, const Windows& rows, const Windows& columns) {
  const DType winner = rows.kernel() * columns.kernel() <= 256 ? DType::u8 : DType::i32;
  return {pooled(x, x.dtype(), rows, columns), pooled(x, winner, rows, columns)};
}
template <class Fn> void visit_winner(DType dtype, const Fn& fn) {
  dtype == DType::u8 ? fn(uint8_t()) : fn(int32_t());
}
inline constinit Kernel<MaxPool(const Tensor& x, const Windows& rows, const Windows& columns)>
    max_pool2d{"max_pool2d"};
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& winner, const Shape& x,
                               const Windows& rows, const Windows& columns)>
    max_pool2d_backward{"max_pool2d_backward"};
inline constinit Kernel<Tensor(const Tensor& x, const Windows& rows, const Windows& columns)>
    avg_pool2d{"avg_pool2d"};
inline constinit Kernel<Tensor(const Tensor& dy, const Shape& x, const Windows& rows,
                               const Windows& columns)>
    avg_pool2d_backward{"avg_pool2d_backward"};
}  // namespace kernels
}  // namespace bellows
