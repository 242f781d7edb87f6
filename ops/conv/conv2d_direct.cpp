// Direct convolution: the formula itself, on images copied into zero-padded frames. There is no
// im2col copy, which pays off with few channels. The work is split so that no sum depends on the
// number of threads.
#include "core/base/round.h"
#include "core/device/parallel.h"
#include "ops/base/lanes.h"
#include "ops/conv/conv2d_cpu.h"

namespace bellows {

namespace {

using conv2d_cpu::Sizes;

constexpr int kChannels = 4;  // output channels that share each load of x

// Image planes with a border of zeros, and at least one vector's length of slack after each row.
template <class T> struct Framed {
  Framed(int64_t planes, int64_t height, int64_t width, int64_t frame, int lanes)
      : height(height),
        width(width),
        frame(frame),
        rows(height + 2 * frame),
        stride((width + 2 * frame + 2 * lanes - 1) / lanes * lanes),
        values(planes * rows * stride, T(0)) {}
  T* row(int64_t plane, int64_t i) { return values.data() + (plane * rows + i) * stride; }
  void load(int64_t plane, const T* image) {
    for (int64_t i = 0; i < height; ++i)
      std::copy_n(image + i * width, width, row(plane, i + frame) + frame);
  }
  int64_t height, width, frame, rows, stride;
  std::vector<T> values;
};

// Computes one row of kChannels output planes: y[q, j] = b[q] + sum over taps of w[q, tap]
// x[offsets[tap] + j].
template <int L, class T>
[[gnu::always_inline]] inline void row_of(const T* x, const std::vector<int64_t>& offsets,
                                          const T* const (&w)[kChannels], const T (&b)[kChannels],
                                          T* const (&y)[kChannels], int64_t width) {
  for (int64_t j = 0; j < width; j += 2 * L) {
    Lanes<T, L> sums[kChannels][2];
    for (int q = 0; q < kChannels; ++q) sums[q][0] = sums[q][1] = Lanes<T, L>{} + b[q];
    for (size_t tap = 0; tap < offsets.size(); ++tap) {
      const T* const at = x + offsets[tap] + j;
      const Lanes<T, L> first = load<L>(at), second = load<L>(at + L);
      for (int q = 0; q < kChannels; ++q) {
        sums[q][0] += w[q][tap] * first;
        sums[q][1] += w[q][tap] * second;
      }
    }
    for (int q = 0; q < kChannels; ++q)
      std::copy_n(reinterpret_cast<const T*>(sums[q]), std::min<int64_t>(2 * L, width - j),
                  y[q] + j);
  }
}

}  // namespace

static Tensor forward(const Tensor& x_, const Tensor& w_, const Tensor& b_,
                      const Conv2dOptions& options, Slot&) {
  const Tensor x = contiguous(x_), w = contiguous(w_);
  const Tensor b = b_.defined() ? contiguous(b_) : b_;
  const Sizes g(x.shape(), w.shape(), options);
  const Tensor y = empty({g.N, g.K, g.OH, g.OW}, x);
  visit_float(x.dtype(), [&]<class T>(T) {
    const auto images = [&]<int L>(int64_t begin, int64_t end) __attribute__((always_inline)) {
      Framed<T> framed(g.C, g.H, g.W, g.padding, 2 * L);
      std::vector<int64_t> offsets;
      for (int64_t tap = 0; tap < g.taps(); ++tap)
        offsets.push_back(framed.row(tap / (g.KH * g.KW), tap / g.KW % g.KH) + tap % g.KW -
                          framed.row(0, 0));
      std::vector<T> nowhere(g.OW);
      for (int64_t n = begin; n < end; ++n) {
        for (int64_t c = 0; c < g.C; ++c) framed.load(c, x.ptr<T>() + (n * g.C + c) * g.H * g.W);
        for (int64_t k = 0; k < g.K; k += kChannels)
          for (int64_t i = 0; i < g.OH; ++i) {
            const T* weights[kChannels];
            T* rows[kChannels];
            T bias[kChannels];
            for (int64_t q = 0; q < kChannels; ++q) {
              const int64_t channel = std::min(k + q, g.K - 1);
              weights[q] = w.ptr<T>() + channel * g.taps();
              bias[q] = b.defined() ? b.ptr<T>()[channel] : T(0);
              rows[q] =
                  k + q < g.K ? y.ptr<T>() + ((n * g.K + k + q) * g.OH + i) * g.OW : nowhere.data();
            }
            row_of<L>(framed.row(0, i), offsets, weights, bias, rows, g.OW);
          }
      }
    };
    parallel_for(g.N, 1, [&](int64_t begin, int64_t end) {
      in_lanes<T>([&]<int L>() __attribute__((always_inline)) {
        images.template operator()<L>(begin, end);
      });
    });
  });
  return contiguous(y, conv2d_format(x_, w_));
}

// Adds one image's contribution to dw of kChannels output channels and one input channel.
template <class T>
static void add_taps(Framed<T>& dy, Framed<T>& x, int64_t KH, int64_t KW,
                     std::vector<T> (&sums)[kChannels]) {
  in_lanes<T>([&]<int L>() __attribute__((always_inline)) {
    for (int64_t tap = 0; tap < KH * KW; ++tap) {
      Lanes<T, L> parts[kChannels] = {};
      for (int64_t i = 0; i < dy.height; ++i) {
        const T* const row = x.row(0, i + tap / KW) + tap % KW;
        for (int64_t j = 0; j < dy.width; j += L)
          for (int q = 0; q < kChannels; ++q)
            parts[q] += load<L>(dy.row(q, i) + j) * load<L>(row + j);
      }
      for (int q = 0; q < kChannels; ++q)
        for (int lane = 0; lane < L; ++lane) sums[q][tap] += parts[q][lane];
    }
  });
}

static void sum_products(const Tensor& dy, const Tensor& x, const Tensor& dw,
                         const Conv2dOptions& options) {
  const Sizes g(x.shape(), dw.shape(), options);
  const int64_t C = g.C, K = g.K, area = g.KH * g.KW, groups = ceil_div(K, kChannels);
  visit_float(x.dtype(), [&]<class T>(T) {
    parallel_for(groups * C, 1, [&](int64_t begin, int64_t end) {
      Framed<T> grads(kChannels, g.OH, g.OW, 0, lane_count<T>());
      Framed<T> image(1, g.H, g.W, g.padding, lane_count<T>());
      for (int64_t item = begin; item < end; ++item) {
        const int64_t k = item / C * kChannels, c = item % C;
        std::vector<T> sums[kChannels];
        for (auto& taps : sums) taps.assign(area, T(0));
        for (int64_t n = 0; n < g.N; ++n) {
          image.load(0, x.ptr<T>() + (n * C + c) * g.H * g.W);
          for (int64_t q = 0; q < kChannels && k + q < K; ++q)
            grads.load(q, dy.ptr<T>() + (n * K + k + q) * g.pixels());
          add_taps(grads, image, g.KH, g.KW, sums);
        }
        for (int64_t q = 0; q < kChannels && k + q < K; ++q)
          std::ranges::copy(sums[q], dw.ptr<T>() + ((k + q) * C + c) * area);
      }
    });
  });
  dw.raise_version();
}

// For stride 1, dx is also a convolution: of dy, with the weights rotated by 180 degrees, input and
// output channels exchanged, and padding KH - 1 - padding.
static Tensor backward_x(const Tensor& dy, const Tensor& w_, const Shape&, const Conv2dOptions& o,
                         Slot& slot) {
  const Tensor w = contiguous(w_);
  const int64_t K = w.dim(0), C = w.dim(1), area = w.dim(2) * w.dim(3);
  const Tensor rotated = empty({C, K, w.dim(2), w.dim(3)}, w);
  visit_float(w.dtype(), [&]<class T>(T) {
    for (int64_t k = 0; k < K; ++k)
      for (int64_t c = 0; c < C; ++c)
        std::reverse_copy(w.ptr<T>() + (k * C + c) * area, w.ptr<T>() + (k * C + c + 1) * area,
                          rotated.ptr<T>() + (c * K + k) * area);
  });
  const Tensor dx = forward(dy, rotated, Tensor(), {.padding = w.dim(2) - 1 - o.padding}, slot);
  return contiguous(dx, conv2d_format(dy, w_));
}

static bool fits(const Tensor& x, const Tensor& w, const Tensor&, const Conv2dOptions& options,
                 Slot&) {
  return options.stride == 1 && !is_low(x.dtype()) && w.numel() > 0;
}
static bool fits_backward_x(const Tensor& dy, const Tensor& w, const Shape&,
                            const Conv2dOptions& options, Slot& slot) {
  return fits(dy, w, {}, options, slot) && w.dim(2) == w.dim(3) && options.padding < w.dim(2);
}
static bool fits_backward_w(const Tensor&, const Tensor& x, const Tensor& dw, const Tensor& db,
                            const Conv2dOptions& options, Slot& slot) {
  return fits(x, dw, db, options, slot);
}

static const bool algorithm =
    kernels::conv2d.algorithm_on(Device::cpu, "direct", fits, forward) &&
    kernels::conv2d_backward_x.algorithm_on(Device::cpu, "direct", fits_backward_x, backward_x) &&
    kernels::conv2d_backward_w.algorithm_on(Device::cpu, "direct", fits_backward_w,
                                            conv2d_cpu::backward_w_by<sum_products>);

}  // namespace bellows
