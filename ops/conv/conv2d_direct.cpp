// Direct convolution: the formula itself, on images copied into zero-padded frames. There is no
// im2col copy, which pays off with few channels. The work is split so that no sum depends on the
// number of threads.
#include "core/base/round.h"
#include "core/device/parallel.h"
#include "ops/base/lanes.h"
#include "ops/conv/conv2d_cpu.h"

namespace bellows {

namespace {

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
  const Tensor y = empty(conv2d_shape("conv2d", x.shape(), w.shape(), options), x);
  const int64_t C = x.dim(1), H = x.dim(2), W = x.dim(3), K = w.dim(0), OH = y.dim(2);
  const int64_t KH = w.dim(2), KW = w.dim(3), OW = y.dim(3), taps = C * KH * KW;
  visit_float(x.dtype(), [&]<class T>(T) {
    const auto images = [&]<int L>(int64_t begin, int64_t end) __attribute__((always_inline)) {
      Framed<T> framed(C, H, W, options.padding, 2 * L);
      std::vector<int64_t> offsets;
      for (int64_t tap = 0; tap < taps; ++tap)
        offsets.push_back(framed.row(tap / (KH * KW), tap / KW % KH) + tap % KW - framed.row(0, 0));
      std::vector<T> nowhere(OW);
      for (int64_t n = begin; n < end; ++n) {
        for (int64_t c = 0; c < C; ++c) framed.load(c, x.ptr<T>() + (n * C + c) * H * W);
        for (int64_t k = 0; k < K; k += kChannels)
          for (int64_t i = 0; i < OH; ++i) {
            const T* weights[kChannels];
            T* rows[kChannels];
            T bias[kChannels];
            for (int64_t q = 0; q < kChannels; ++q) {
              const int64_t channel = std::min(k + q, K - 1);
              weights[q] = w.ptr<T>() + channel * taps;
              bias[q] = b.defined() ? b.ptr<T>()[channel] : T(0);
              rows[q] = k + q < K ? y.ptr<T>() + ((n * K + k + q) * OH + i) * OW : nowhere.data();
            }
            row_of<L>(framed.row(0, i), offsets, weights, bias, rows, OW);
          }
      }
    };
    parallel_for(x.dim(0), 1, [&](int64_t begin, int64_t end) {
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
  const int64_t N = x.dim(0), C = x.dim(1), H = x.dim(2), W = x.dim(3), K = dw.dim(0);
  const int64_t KH = dw.dim(2), KW = dw.dim(3), OH = dy.dim(2), OW = dy.dim(3);
  const int64_t groups = ceil_div(K, kChannels);
  visit_float(x.dtype(), [&]<class T>(T) {
    parallel_for(groups * C, 1, [&](int64_t begin, int64_t end) {
      Framed<T> grads(kChannels, OH, OW, 0, lane_count<T>());
      Framed<T> image(1, H, W, options.padding, lane_count<T>());
      for (int64_t item = begin; item < end; ++item) {
        const int64_t k = item / C * kChannels, c = item % C;
        std::vector<T> sums[kChannels];
        for (auto& taps : sums) taps.assign(KH * KW, T(0));
        for (int64_t n = 0; n < N; ++n) {
          image.load(0, x.ptr<T>() + (n * C + c) * H * W);
          for (int64_t q = 0; q < kChannels && k + q < K; ++q)
            grads.load(q, dy.ptr<T>() + (n * K + k + q) * OH * OW);
          add_taps(grads, image, KH, KW, sums);
        }
        for (int64_t q = 0; q < kChannels && k + q < K; ++q)
          std::ranges::copy(sums[q], dw.ptr<T>() + ((k + q) * C + c) * KH * KW);
      }
    });
  });
  dw.raise_version();
}

static bool fits_backward_w(const Tensor&, const Tensor& x, const Tensor&, const Tensor&,
                            const Conv2dOptions& options, Slot&) {
  return options.stride == 1 && conv2d_cpu::floats(x);
}

static const bool algorithm =
    kernels::conv2d.algorithm_on(Device::cpu, "direct", conv2d_cpu::fits_forward, forward) &&
    kernels::conv2d_backward_x.algorithm_on(Device::cpu, "direct", conv2d_cpu::fits_backward_x,
                                            conv2d_cpu::backward_x_by<forward>) &&
    kernels::conv2d_backward_w.algorithm_on(Device::cpu, "direct", fits_backward_w,
                                            conv2d_cpu::backward_w_by<sum_products>);

}  // namespace bellows
