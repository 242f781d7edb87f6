// Convolution on the GPU as three tiled products (core/tensor/gemm.cuh). Their second operand is an
// implicit im2col matrix, read straight from the image:
//
//   y(k, pixel)  = sum over taps    of  w(k, tap)    x under (pixel, tap)
//   dx(c, pixel) = sum over (k,r,s) of  w(k,c,r,s)   dy above (pixel, (k,r,s))
//   dw(k, tap)   = sum over pixels  of  dy(k, pixel) x under (pixel, tap)
//
// A tap is (c, r, s). A pixel is (n, i, j): of y in the first and the last product, of x in the
// second.
#include "core/base/divisor.h"
#include "core/base/round.h"
#include "core/device/launch.cuh"
#include "core/tensor/copy.h"
#include "core/tensor/gemm.cuh"
#include "ops/conv/conv2d.h"
#include "ops/conv/image.cuh"
#include "ops/reduce.h"

namespace bellows {

namespace {

// ---- device code

// Coordinates of pixel i among all images of a batch.
struct Pixels {
  explicit Pixels(const Shape& t)
      : image(std::max<int64_t>(t[2] * t[3], 1)), row(std::max<int64_t>(t[3], 1)) {
    count = int(t[0] * t[2] * t[3]);
  }
  __device__ int n(int i) const { return i / image; }
  __device__ int h(int i) const { return i % image / row; }
  __device__ int w(int i) const { return i % image % row; }
  Divisor image, row;
  int count;
};

struct Pixel {
  int64_t at;  // offset of its image; negative beyond the last pixel
  int h, w;    // InputPatch: top left of the window in x; OutputGradient: place in the padded x
};
struct Tap {
  int64_t at;  // offset of its channel; negative beyond the last tap
  int r, s;
};

struct Window2d {
  Divisor kernel, row, stride;  // by KH * KW, by KW, by the stride
  int padding;
  Window2d(const Shape& w, const Conv2dOptions& o)
      : kernel(w[2] * w[3]), row(w[3]), stride(o.stride), padding(int(o.padding)) {}
};

// Pixel i of `pixels` is at i * step + shift along each axis. Taps are those of `image`'s channels.
template <class T> struct Patches {
  using Value = Acc<T>;
  Image<T> image;
  Pixels pixels;
  Window2d window;
  int taps, step, shift;

  __device__ Pixel pixel(int i) const {
    if (i >= pixels.count) return {-1, 0, 0};
    return {pixels.n(i) * image.n, pixels.h(i) * step + shift, pixels.w(i) * step + shift};
  }
  __device__ Tap tap(int i) const {
    if (i >= taps) return {-1, 0, 0};
    const int rs = i % window.kernel;
    return {i / window.kernel * image.c, rs / window.row, rs % window.row};
  }
};

// x at a tap of the window of a pixel of y; 0 in the padding.
template <class T> struct InputPatch : Patches<T> {
  InputPatch(const Tensor& x, const Pixels& pixels, const Window2d& window, int64_t taps)
      : Patches<T>{Image<T>(x), pixels, window, int(taps), window.stride.size, -window.padding} {}
  __device__ Acc<T> value(const Pixel& p, const Tap& t) const {
    if (p.at < 0 || t.at < 0) return 0;
    return this->image.line(this->image.data + p.at + t.at, p.h + t.r)[p.w + t.s];
  }
};

// dy at the pixel whose window has tap (k, r, s) on a pixel of x; 0 if there is none.
template <class T> struct OutputGradient : Patches<T> {
  OutputGradient(const Tensor& dy, const Pixels& pixels, const Window2d& window, int64_t taps)
      : Patches<T>{Image<T>(dy), pixels, window, int(taps), 1, window.padding} {}
  __device__ Acc<T> value(const Pixel& p, const Tap& t) const {
    const Image<T>& dy = this->image;
    const Divisor& stride = this->window.stride;
    const int h = p.h - t.r, w = p.w - t.s;
    if (p.at < 0 || t.at < 0 || h < 0 || w < 0) return 0;
    const int i = h / stride, j = w / stride;
    const bool hit = i * stride.size == h && j * stride.size == w && i < dy.height && j < dy.width;
    return hit ? Acc<T>(dy.data[p.at + t.at + i * dy.h + j * dy.w]) : Acc<T>(0);
  }
};

// Operand (pixel, tap) of a product that sums over taps.
template <class Lookup> struct OverTaps : Lookup {
  static constexpr bool along = false;
  __device__ void enter(int) {}
  __device__ Pixel lane(int i) const { return this->pixel(i); }
  __device__ Tap depth(int k) const { return this->tap(k); }
};
// Operand (tap, pixel) of a product whose block z sums over `each` pixels from z * each on.
template <class Lookup> struct OverPixels : Lookup {
  static constexpr bool along = true;
  int each, first = 0;
  __device__ void enter(int z) { first = z * each; }
  __device__ Tap lane(int i) const { return this->tap(i); }
  __device__ Pixel depth(int k) const { return this->pixel(first + k); }
  __device__ auto value(const Tap& t, const Pixel& p) const { return Lookup::value(p, t); }
};

// Operand dy (k, pixel) of the same product.
template <class T> struct Gradient {
  using Value = Acc<T>;
  Image<T> dy;
  Pixels pixels;
  int K, each;
  bool along = dy.w == 1;
  int first = 0;

  __device__ void enter(int z) { first = z * each; }
  __device__ int64_t lane(int k) const { return k < K ? k * dy.c : -1; }
  __device__ int64_t depth(int i) const {
    i += first;
    if (i >= pixels.count) return -1;
    return pixels.n(i) * dy.n + pixels.h(i) * dy.h + pixels.w(i) * dy.w;
  }
  __device__ Value value(int64_t lane, int64_t depth) const {
    return lane < 0 || depth < 0 ? Value(0) : Value(dy.data[lane + depth]);
  }
};

// Operand w (K, C, KH, KW), row-major, as the matrix (c, (k, r, s)).
template <class T> struct ByInputChannel {
  using Value = Acc<T>;
  const T* w;
  Divisor kernel;  // KH * KW
  int C, taps;     // K * KH * KW
  static constexpr bool along = true;

  __device__ void enter(int) {}
  __device__ int64_t lane(int c) const { return c < C ? int64_t(c) * kernel.size : -1; }
  __device__ int64_t depth(int i) const {
    return i < taps ? int64_t(i / kernel) * C * kernel.size + i % kernel : -1;
  }
  __device__ Value value(int64_t lane, int64_t depth) const {
    return lane < 0 || depth < 0 ? Value(0) : Value(w[lane + depth]);
  }
};

// Output (channel, pixel): writes into an image and adds the channel's bias.
template <class T> struct IntoImage {
  Image<T> y;
  Pixels pixels;
  const T* bias = nullptr;

  __device__ void enter(int) {}
  __device__ void store(int c, int i, Acc<T> value) const {
    if (bias) value += Acc<T>(bias[c]);
    y.data[pixels.n(i) * y.n + c * y.c + pixels.h(i) * y.h + pixels.w(i) * y.w] = T(value);
  }
};

// Output: the sums over one share of the pixels, dw (K, taps).
template <class Value> struct IntoParts {
  Value* parts;
  int64_t taps, part;

  __device__ void enter(int z) { parts += z * part; }
  __device__ void store(int k, int tap, Value value) const { parts[k * taps + tap] = value; }
};

// ---- host code

void check_sizes(const Tensor& image) {
  const int64_t pixels = image.dim(0) * image.dim(2) * image.dim(3);
  CHECK(pixels < int64_t{1} << 31, running_kernel(), ": ", image.shape(),
        " has more pixels than 32-bit indices reach");
}

}  // namespace

static Tensor forward(const Tensor& x, const Tensor& w_, const Tensor& b_,
                      const Conv2dOptions& options, Slot&) {
  const Tensor w = contiguous(w_), b = b_.defined() ? contiguous(b_) : b_;
  const int64_t K = w.dim(0), taps = w.numel() / std::max<int64_t>(K, 1);
  const Tensor y(conv2d_shape("conv2d", x.shape(), w.shape(), options), x.dtype(), x.device(),
                 conv2d_format(x, w_));
  check_sizes(x), check_sizes(y);
  visit_stored(x.dtype(), [&]<class T>(T) {
    const Pixels pixels(y.shape());
    gemm::run(gemm::Matrix<T>{w.ptr<T>(), 0, taps, 1, int(K), int(taps)},
              OverTaps<InputPatch<T>>{{x, pixels, Window2d(w.shape(), options), taps}},
              IntoImage<T>{Image<T>(y), pixels, b.defined() ? b.ptr<T>() : nullptr},
              {1, K, pixels.count, taps});
  });
  return y;
}

static Tensor backward_x(const Tensor& dy, const Tensor& w_, const Shape& x,
                         const Conv2dOptions& options, Slot&) {
  const Tensor w = contiguous(w_), dx(x, dy.dtype(), dy.device(), conv2d_format(dy, w_));
  check_sizes(dx), check_sizes(dy);
  const Window2d window(w.shape(), options);
  const int64_t C = x[1], taps = w.dim(0) * window.kernel.size;
  visit_stored(dy.dtype(), [&]<class T>(T) {
    const Pixels pixels(x);
    gemm::run(ByInputChannel<T>{w.ptr<T>(), window.kernel, int(C), int(taps)},
              OverTaps<OutputGradient<T>>{{dy, pixels, window, taps}},
              IntoImage<T>{Image<T>(dx), pixels}, {1, C, pixels.count, taps});
  });
  return dx;
}

// Splits the pixels into shares, so that enough blocks run at once, and adds up the shares.
static void sum_shares(const Tensor& dy, const Tensor& x, const Tensor& dw,
                       const Conv2dOptions& options) {
  constexpr int64_t kLeast = 256;  // fewest pixels of a share
  const int64_t K = dw.dim(0), taps = dw.numel() / std::max<int64_t>(K, 1);
  check_sizes(x), check_sizes(dy);
  const Pixels pixels(dy.shape());
  const int64_t tiles = std::max<int64_t>(gemm::tiles<gemm::Wide>({1, K, taps, 0}), 1);
  const int64_t most = std::max<int64_t>(4 * cuda::limits().multiprocessors / tiles, 1);
  const int64_t each = std::max(kLeast, ceil_div<int64_t>(pixels.count, most));
  const int64_t shares = std::max<int64_t>(ceil_div<int64_t>(pixels.count, each), 1);
  visit_stored(dy.dtype(), [&]<class T>(T) {
    const Tensor parts({shares, dw.numel()}, dtype_of<Acc<T>>, dy.device());
    gemm::run(
        Gradient<T>{Image<T>(dy), pixels, int(K), int(each)},
        OverPixels<InputPatch<T>>{{x, pixels, Window2d(dw.shape(), options), taps}, int(each)},
        IntoParts<Acc<T>>{parts.ptr<Acc<T>>(), taps, dw.numel()}, {shares, K, taps, each});
    copy_into(dw, kernels::sum(parts, {1, dw.numel()}, 1).view_as(dw.shape()));
  });
}

static void backward_w(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& db,
                       const Conv2dOptions& options, Slot&) {
  write_in(kNCHW, dw, [&](const Tensor& row_major) { sum_shares(dy, x, row_major, options); });
  if (db.defined()) copy_into(db, kernels::sum(dy, {1, dy.dim(1), 1, 1}, 1).view_as(db.shape()));
}

static const bool gpu = kernels::conv2d.on(Device::cuda, forward) &&
                        kernels::conv2d_backward_x.on(Device::cuda, backward_x) &&
                        kernels::conv2d_backward_w.on(Device::cuda, backward_w);

}  // namespace bellows
