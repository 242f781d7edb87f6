// Convolutions as one matrix product over all pixels of a batch, in NHWC: forward and dx of 1x1
// kernels, and dw of any kernel. With a stride, the pixels of x that are used are gathered first,
// and their gradients scattered into zeros.
#include "core/device/parallel.h"
#include "core/tensor/foreach.h"
#include "ops/conv/conv2d_cpu.h"
#include "ops/matmul/linear.h"
#include "ops/matmul/matmul.h"

namespace bellows {

namespace {

// Views images in NHWC as (1, pixels, channels), and 1x1 weights as (1, K, C).
Tensor pixels_of(const Tensor& t) {
  const int64_t channels = t.dim(1);
  return t.view({1, t.numel() / channels, channels}, {t.numel(), channels, 1}, t.offset());
}
Tensor weights_of(const Tensor& w) { return w.view_as({1, w.dim(0), w.dim(1)}); }

// Calls fn(n, i, j, pixel) for each pixel (i, j) of N images of OH x OW pixels.
template <class Fn> void for_each_pixel(int64_t N, int64_t OH, int64_t OW, const Fn& fn) {
  parallel_for(N * OH, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t j = 0; j < OW; ++j) fn(row / OH, row % OH, j, row * OW + j);
  });
}

// im2col in NHWC: (1, pixels of y, KH KW C), one row per pixel of y, zeros in the padding.
Tensor windows(const Tensor& x_, const Shape& w, const Conv2dOptions& options) {
  const Tensor x = contiguous(x_, kNHWC);
  const conv2d_cpu::Sizes g(x.shape(), w, options);
  const int64_t area = g.KH * g.KW;
  if (area == 1 && g.stride == 1 && g.padding == 0) return pixels_of(x);
  const Tensor rows({1, g.N * g.pixels(), g.taps()}, x.dtype());
  const int64_t size = g.C * int64_t(size_of(x.dtype()));  // bytes per pixel
  for_each_pixel(g.N, g.OH, g.OW, [&](int64_t n, int64_t i, int64_t j, int64_t pixel) {
    std::byte* to = rows.bytes() + pixel * area * size;
    for (int64_t tap = 0; tap < area; ++tap, to += size) {
      const int64_t h = i * g.stride + tap / g.KW - g.padding;
      const int64_t v = j * g.stride + tap % g.KW - g.padding;
      if (h >= 0 && h < g.H && v >= 0 && v < g.W)
        std::copy_n(x.bytes() + ((n * g.H + h) * g.W + v) * size, size, to);
      else
        std::fill_n(to, size, std::byte(0));
    }
  });
  return rows;
}

// Writes y to every stride-th pixel of zero images with `shape`.
Tensor scatter(const Tensor& y, const Shape& shape, int64_t stride) {
  const Tensor x(shape, y.dtype(), Device::cpu, kNHWC);
  fill(x, 0);
  const int64_t size = y.dim(1) * int64_t(size_of(y.dtype()));
  for_each_pixel(y.dim(0), y.dim(2), y.dim(3), [&](int64_t n, int64_t i, int64_t j, int64_t pixel) {
    const int64_t to = (n * shape[2] + i * stride) * shape[3] + j * stride;
    std::copy_n(y.bytes() + pixel * size, size, x.bytes() + to * size);
  });
  return x;
}

}  // namespace

static Tensor forward(const Tensor& x, const Tensor& w, const Tensor&, const Conv2dOptions& options,
                      Slot& slot) {
  const Tensor y(conv2d_shape("conv2d", x.shape(), w.shape(), options), x.dtype(), Device::cpu,
                 kNHWC);
  kernels::multiply(pixels_of(y), windows(x, w.shape(), options),
                    transposed(weights_of(contiguous(w))), Into::overwrite, &slot);
  return contiguous(y, conv2d_format(x, w));
}

static Tensor backward_x(const Tensor& dy, const Tensor& w, const Shape& x,
                         const Conv2dOptions& options, Slot& slot) {
  const Tensor dx({x[0], x[1], dy.dim(2), dy.dim(3)}, dy.dtype(), Device::cpu, kNHWC);
  kernels::multiply(pixels_of(dx), pixels_of(contiguous(dy, kNHWC)), weights_of(contiguous(w)),
                    Into::overwrite, &slot);
  return contiguous(options.stride == 1 ? dx : scatter(dx, x, options.stride),
                    conv2d_format(dy, w));
}

void conv2d_cpu::backward_w_by_product(const Tensor& dy, const Tensor& x, const Tensor& dw,
                                       const Tensor& db, const Conv2dOptions& options, Slot& slot) {
  const int64_t K = dw.dim(0), window = dw.numel() / K;
  const Tensor pixels = pixels_of(contiguous(dy, kNHWC));
  write_in(kNHWC, dw, [&](const Tensor& ohwi) {
    const Tensor y = ohwi.view({1, K, window}, {K * window, window, 1}, ohwi.offset());
    kernels::multiply(y, transposed(pixels), windows(x, dw.shape(), options), Into::overwrite,
                      &slot);
  });
  if (db.defined()) kernels::sum_rows(pixels.view_as({pixels.dim(1), K}), db);
}

static bool fits(const Tensor&, const Tensor& w, const Tensor& b, const Conv2dOptions& options,
                 Slot&) {
  return w.numel() > 0 && w.dim(2) == 1 && w.dim(3) == 1 && options.padding == 0 && !b.defined();
}
static bool fits_backward_x(const Tensor& dy, const Tensor& w, const Shape&,
                            const Conv2dOptions& options, Slot& slot) {
  return fits(dy, w, {}, options, slot);
}
bool conv2d_cpu::product_fits(const Tensor& dy, const Tensor&, const Tensor& dw, const Tensor&,
                              const Conv2dOptions&, Slot&) {
  if (dw.numel() == 0) return false;
  const int64_t bytes =
      dy.numel() / dy.dim(1) * dw.numel() / dw.dim(0) * int64_t(size_of(dw.dtype()));
  return bytes <= kernel_options().workspace_mb << 20;
}
static const bool algorithm =
    kernels::conv2d.algorithm_on(Device::cpu, "matmul", fits, forward) &&
    kernels::conv2d_backward_x.algorithm_on(Device::cpu, "matmul", fits_backward_x, backward_x) &&
    kernels::conv2d_backward_w.algorithm_on(Device::cpu, "matmul", conv2d_cpu::product_fits,
                                            conv2d_cpu::backward_w_by_product);

}  // namespace bellows
