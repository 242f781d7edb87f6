#include "ops/conv/conv2d.h"
#include "autograd/amp.h"
#include "autograd/backward.h"
#include "core/base/round.h"
#include "core/device/parallel.h"
#include "core/tensor/foreach.h"
#include "core/tensor/in_f32.h"
#include "ops/base/op.h"
#include "ops/base/per_thread.h"
#include "ops/base/work.h"
#include "ops/conv/conv2d_cpu.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/padded.h"
#include "ops/reduce.h"

namespace bellows {

// ---- the op

Shape conv2d_shape(const char* op, const Shape& x, const Shape& w, const Conv2dOptions& o) {
  CHECK(x.rank() == 4 && w.rank() == 4 && x[1] == w[1], op, ": x ", x, " needs w of shape [out,",
        x.rank() == 4 ? x[1] : 0, ",height,width], got ", w);
  CHECK(o.stride >= 1 && o.padding >= 0, op, ": stride ", o.stride,
        " must be at least 1, and padding ", o.padding, " at least 0");
  CHECK(x[2] + 2 * o.padding >= w[2] && x[3] + 2 * o.padding >= w[3], op, ": w ", w,
        " does not fit x ", x, " with padding ", o.padding);
  return {x[0], w[0], (x[2] + 2 * o.padding - w[2]) / o.stride + 1,
          (x[3] + 2 * o.padding - w[3]) / o.stride + 1};
}

const MemoryFormat& conv2d_format(const Tensor& a, const Tensor& b) {
  return format_of(a) == kNHWC || format_of(b) == kNHWC ? kNHWC : kNCHW;
}

Tensor conv2d(const Tensor& x_, const Tensor& w_, const Tensor& b_, const Conv2dOptions& options,
              Slot* slot) {
  const auto [x, w, b] = amp::low(x_, w_, b_);
  conv2d_shape("conv2d", x.shape(), w.shape(), options);
  check_one_dtype("conv2d", x, w, b);
  count_layout(x);
  CHECK(!b.defined() || b.shape() == Shape{w.dim(0)}, "conv2d: w ", w.shape(), " needs b of shape ",
        Shape{w.dim(0)}, ", got ", b.shape());
  Slot cache = slot ? *slot : Slot();
  const Tensor y = padded::forward(kernels::conv2d, x, w, b, options, cache);
  if (!will_record(x, w, b)) return y;
  return record("conv2d", y, {x, w, b},
                [x = Saved(x), w = Saved(w), b = Saved(b), options, cache, needs_dx = needs_grad(x),
                 needs_dw = needs_grad(w), needs_db = needs_grad(b)](const Tensor& dy) mutable {
                  Grads grads(3);
                  if (needs_dw) grads[1] = grad_out(w());
                  if (needs_dw && needs_db) grads[2] = grad_out(b());
                  const auto dx_of = [&](const Tensor& dy, const Tensor& w) {
                    const Shape shape{x().dim(0), w.dim(1), x().dim(2), x().dim(3)};
                    return kernels::conv2d_backward_x(dy, w, shape, options, cache);
                  };
                  if (needs_dx) grads[0] = padded::backward_x(dx_of, dy, w());
                  if (needs_dw)
                    padded::backward_w(kernels::conv2d_backward_w, dy, x(), grads[1], grads[2],
                                       options, cache);
                  else if (needs_db)
                    grads[2] = kernels::sum(dy, {1, dy.dim(1), 1, 1}, 1).view_as({dy.dim(1)});
                  return grads;
                });
}

static const AddWork work("conv2d", [](const RecordedOp& op) {
  const Shape& w = op.inputs.at(1).shape;
  return product(op, 2.0 * double(op.y.numel()) * double(w.numel() / w[0]));
});

static AddOp spec(const char* variant, const Conv2dOptions& options, std::vector<Shapes> cases,
                  std::vector<Shapes> rejects, std::vector<Shapes> large) {
  return AddOp(
      {.name = "conv2d",
       .math = "y[k,i,j] = b[k] + sum over c,r,s of x[c, i*stride+r, j*stride+s] w[k,c,r,s]",
       .cases = std::move(cases),
       .run =
           [options](const Inputs& in) {
             return conv2d(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), options);
           },
       .rejects = std::move(rejects),
       .variant = variant,
       .large = std::move(large),
       .close_f32 = false});
}
static const AddOp specs[] = {
    spec("", {}, {{{2, 3, 5, 6}, {4, 3, 3, 2}, {4}}, {{1, 1, 3, 3}, {1, 1, 3, 3}, {1}}},
         {{{2, 3, 5, 5}, {4, 2, 3, 3}, {4}},
          {{2, 3, 5, 5}, {4, 3, 3, 3}, {3}},
          {{2, 3, 5, 5}, {4, 3, 6, 3}, {4}}},
         {{{33, 6, 14, 14}, {16, 6, 5, 5}, {16}}}),
    spec("padding 1", {.padding = 1}, {{{2, 3, 5, 6}, {5, 3, 3, 3}, {5}}}, {},
         {{{5, 6, 15, 14}, {16, 6, 3, 3}, {16}},
          {{3, 37, 9, 10}, {70, 37, 3, 3}, {70}},
          {{2, 1, 124, 124}, {1, 1, 3, 3}, {1}}}),
    spec("padding 2", {.padding = 2}, {{{2, 1, 6, 6}, {3, 1, 5, 5}, {3}}}, {},
         {{{9, 1, 28, 28}, {6, 1, 5, 5}, {6}}}),
    spec("stride 2", {.stride = 2, .padding = 1}, {{{2, 2, 6, 5}, {3, 2, 3, 3}, {3}}}, {}, {}),
    spec("without bias", {}, {{{2, 3, 5, 6}, {4, 3, 1, 1}}, {{2, 3, 5, 6}, {4, 3, 3, 2}}}, {}, {}),
    spec("stride 2 without bias", {.stride = 2, .padding = 1}, {{{2, 3, 6, 5}, {4, 3, 3, 3}}}, {},
         {}),
    spec("1x1 by 2", {.stride = 2}, {{{2, 3, 5, 6}, {4, 3, 1, 1}}}, {},
         {{{7, 5, 9, 8}, {6, 5, 1, 1}}, {{1, 8, 56, 56}, {16, 8, 1, 1}}}),
};

// ---- CPU: im2col and a matrix product, in blocks that do not depend on the thread count. Always
// computed in NCHW; other memory formats are converted before and after.

namespace {

using conv2d_cpu::Sizes;

// Maps tap (c, r, s) at output pixels [pixel, pixel + pixels) to pixels of x. Calls fn(j, at,
// count) for each run of output pixels j, j + 1, ... in one row: they read x at offsets at, at +
// stride, ... Pixels whose tap is in the padding are left out.
template <class Fn>
void for_each_run(const Sizes& g, int64_t tap, int64_t pixel, int64_t pixels, const Fn& fn) {
  const int64_t c = tap / (g.KH * g.KW), r = tap / g.KW % g.KH - g.padding;
  const int64_t s = tap % g.KW - g.padding;
  // Output columns whose input column is inside: 0 <= j * stride + s < W.
  const int64_t first = s < 0 ? (-s + g.stride - 1) / g.stride : 0;
  const int64_t last = g.W - s <= 0 ? 0 : std::min(g.OW, (g.W - s - 1) / g.stride + 1);
  for (int64_t i = pixel / g.OW; i * g.OW < pixel + pixels; ++i) {
    const int64_t h = i * g.stride + r, row = i * g.OW - pixel;  // row: j of the row's first pixel
    const int64_t begin = std::max(first, -row), end = std::min(last, pixels - row);
    if (h >= 0 && h < g.H && begin < end)
      fn(row + begin, (c * g.H + h) * g.W + begin * g.stride + s, end - begin);
  }
}

// Writes the values of x under each tap and output pixel: (taps, pixels). x: one image (C, H, W).
template <class T>
void im2col(const T* x, const Sizes& g, int64_t tap, int64_t taps, int64_t pixel, int64_t pixels,
            T* columns) {
  std::fill_n(columns, taps * pixels, T(0));
  for (int64_t i = 0; i < taps; ++i)
    for_each_run(g, tap + i, pixel, pixels, [&](int64_t j, int64_t at, int64_t count) {
      T* const to = columns + i * pixels + j;
      if (g.stride == 1) {
        std::copy_n(x + at, count, to);
      } else {
        for (int64_t k = 0; k < count; ++k) to[k] = x[at + k * g.stride];
      }
    });
}

}  // namespace

// y = w im2col(x) + b, in blocks of 64 output pixels of one image.
static Tensor forward(const Tensor& x_, const Tensor& w_, const Tensor& b_,
                      const Conv2dOptions& options, Slot&) {
  constexpr int64_t kPixels = 64;
  const Tensor x = contiguous(x_), w = contiguous(w_);
  const Tensor b = b_.defined() ? contiguous(b_) : b_;
  const Sizes g(x.shape(), w.shape(), options);
  const int64_t N = g.N, K = g.K, blocks = ceil_div(g.pixels(), kPixels);
  const Tensor y = empty({N, K, g.OH, g.OW}, x);
  visit_float(x.dtype(), [&]<class T>(T) {
    const T* const bias = b.defined() ? b.ptr<T>() : nullptr;
    const PerThread<T> scratch(g.taps() * kPixels);
    parallel_for(N * blocks, 1, [&](int64_t begin, int64_t end) {
      T* const columns = scratch.mine();
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / blocks, first = i % blocks * kPixels;
        const int64_t count = std::min(kPixels, g.pixels() - first);
        T* const part = y.ptr<T>() + n * K * g.pixels() + first;
        im2col(x.ptr<T>() + n * (x.numel() / N), g, 0, g.taps(), first, count, columns);
        kernels::multiply_here<T>({part, K, count, g.pixels()}, w.ptr<T>(), {false, g.taps()},
                                  columns, {false, count}, g.taps(), Into::overwrite);
        for (int64_t k = 0; bias && k < K; ++k) {
          const T shift = bias[k];
          for (int64_t j = 0; j < count; ++j) part[k * g.pixels() + j] += shift;
        }
      }
    });
  });
  return contiguous(y, conv2d_format(x_, w_));
}

// dx = col2im(w^T dy), one image and input channel at a time.
static Tensor backward_x(const Tensor& dy_, const Tensor& w_, const Shape& x,
                         const Conv2dOptions& options, Slot&) {
  const Tensor dy = contiguous(dy_), w = contiguous(w_);
  const Sizes g(x, w.shape(), options);
  const int64_t C = g.C, taps = g.KH * g.KW, pixels = g.pixels();
  const Tensor dx = full(x, 0, dy);
  visit_float(dy.dtype(), [&]<class T>(T) {
    const PerThread<T> scratch(taps * pixels);
    parallel_for(g.N * C, 1, [&](int64_t begin, int64_t end) {
      T* const columns = scratch.mine();
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / C, c = i % C;
        kernels::multiply_here<T>({columns, taps, pixels, pixels}, w.ptr<T>() + c * taps,
                                  {true, g.taps()}, dy.ptr<T>() + n * g.K * pixels, {false, pixels},
                                  g.K, Into::overwrite);
        T* const image = dx.ptr<T>() + n * C * g.H * g.W;
        for (int64_t t = 0; t < taps; ++t)
          for_each_run(g, c * taps + t, 0, pixels, [&](int64_t j, int64_t at, int64_t count) {
            const T* const from = columns + t * pixels + j;
            T* const to = image + at;
            if (g.stride == 1) {
#pragma GCC ivdep
              for (int64_t k = 0; k < count; ++k) to[k] += from[k];
            } else {
              for (int64_t k = 0; k < count; ++k) to[k * g.stride] += from[k];
            }
          });
      }
    });
  });
  return contiguous(dx, conv2d_format(dy_, w_));
}

// dw = sum over images of dy im2col(x)^T, 32 taps at a time.
static void sum_products(const Tensor& dy, const Tensor& x, const Tensor& dw,
                         const Conv2dOptions& options) {
  constexpr int64_t kTaps = 32;
  const Sizes g(x.shape(), dw.shape(), options);
  const int64_t pixels = g.pixels();
  fill(dw, 0);
  visit_float(dy.dtype(), [&]<class T>(T) {
    const PerThread<T> scratch(std::min(kTaps, g.taps()) * pixels);
    parallel_for(g.taps(), kTaps, [&](int64_t begin, int64_t end) {
      const int64_t taps = end - begin;
      T* const columns = scratch.mine();
      for (int64_t n = 0; n < g.N; ++n) {
        im2col(x.ptr<T>() + n * (x.numel() / g.N), g, begin, taps, 0, pixels, columns);
        kernels::multiply_here<T>({dw.ptr<T>() + begin, g.K, taps, g.taps()},
                                  dy.ptr<T>() + n * g.K * pixels, {false, pixels}, columns,
                                  {true, pixels}, pixels, Into::add);
      }
    });
  });
  dw.raise_version();
}

static void backward_w(const Tensor& dy_, const Tensor& x_, const Tensor& dw, const Tensor& db,
                       const Conv2dOptions& options, Slot&) {
  const Tensor dy = contiguous(dy_), x = contiguous(x_);
  write_in(kNCHW, dw, [&](const Tensor& row_major) { sum_products(dy, x, row_major, options); });
  if (db.defined()) conv2d_cpu::sum_pixels(dy, db);
}

static const bool cpu = kernels::conv2d.on(Device::cpu, in_f32<forward>) &&
                        kernels::conv2d_backward_x.on(Device::cpu, in_f32<backward_x>) &&
                        kernels::conv2d_backward_w.on(Device::cpu, in_f32<backward_w>);

}  // namespace bellows
