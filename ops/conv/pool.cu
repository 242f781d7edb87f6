#include "core/tensor/copy.h"
#include "core/tensor/map.cuh"
#include "ops/conv/pool.h"

namespace bellows {

namespace {

// ---- device code: one thread per piece of y, or of dx. Backward gathers, so no two threads add to
// the same element and the order of each sum is fixed. Blocks of 256 threads. Maxima come in pieces
// of 16 bytes if they fit, else an element at a time; means an element at a time.

int64_t inner_of(const Tensor& t, const MemoryFormat& format) {
  return format == kNCHW ? 1 : t.dim(format == kNHWC ? 1 : 0);
}

// A dense image tensor in any memory format as (outer, height, width, inner), with pieces of K
// elements as its elements. `inner` is 1 in NCHW, C / K in NHWC and N / K in CHWN.
struct Layout {
  Layout(const Tensor& t, const MemoryFormat& format, int K = 1)
      : height(std::max<int64_t>(t.dim(2), 1)),
        width(std::max<int64_t>(t.dim(3), 1)),
        inner(std::max<int64_t>(inner_of(t, format) / K, 1)) {}
  struct Place {
    int outer, h, w, inner;
  };
  __device__ Place place(int i) const {
    const int pixel = i / inner, row = pixel / width;
    return {row / height, row % height, pixel % width, i % inner};
  }
  // Returns the offset of pixel (h, w) in the image that contains `place`.
  __device__ int64_t at(const Place& place, int64_t h, int64_t w) const {
    return ((place.outer * int64_t(height.size) + h) * width.size + w) * inner.size + place.inner;
  }
  Divisor height, width, inner;
};

// Reads each element of x once for each window that it is in; writes y, and a winner per element.
template <int K, class T, class W>
__global__ void take_largest(const T* x, T* y, W* winner, int pieces, Layout from, Layout to,
                             Windows rows, Windows columns) {
  for (int64_t i = thread_index(); i < pieces; i += thread_count()) {
    const auto place = to.place(int(i));
    const Window h = rows[place.h], w = columns[place.w];
    const int left = int(w.begin) - columns.start(place.w);
    int row = (int(h.begin) - rows.start(place.h)) * columns.kernel();
    Acc<T> largest[K] = {};
    AlignedVector<W, K> best = {};
    for (int64_t a = h.begin; a < h.end; ++a, row += columns.kernel())
      for (int64_t b = w.begin; b < w.end; ++b) {
        const AlignedVector<T, K> in = load<K>(x + from.at(place, a, b) * K);
        const bool first = a == h.begin && b == w.begin;
        const int here = row + left + int(b - w.begin);
        for (int k = 0; k < K; ++k) {
          const Acc<T> value(in.at[k]);
          if (!first && (value <= largest[k] || largest[k] != largest[k])) continue;
          largest[k] = value, best.at[k] = W(here);  // the first NaN wins
        }
      }
    store(y + i * K, packed<T>(largest));
    store(winner + i * K, best);
  }
}

template <class T>
__global__ void take_mean(const T* x, T* y, int n, Layout from, Layout to, Windows rows,
                          Windows columns) {
  for (int64_t i = thread_index(); i < n; i += thread_count()) {
    const auto place = to.place(int(i));
    const Window h = rows[place.h], w = columns[place.w];
    Acc<T> sum = 0;
    for (int64_t a = h.begin; a < h.end; ++a)
      for (int64_t b = w.begin; b < w.end; ++b) sum += Acc<T>(x[from.at(place, a, b)]);
    y[i] = T(sum / Acc<T>(h.size * w.size));
  }
}

// dx = sum of dy over the windows whose maximum is this element. Reads dy and the winners once for
// each element of a window, and writes dx.
template <int K, class T, class W>
__global__ void give_to_winner(const T* dy, const W* winner, T* dx, int pieces, Layout from,
                               Layout to, Windows rows, Windows columns) {
  for (int64_t i = thread_index(); i < pieces; i += thread_count()) {
    const auto place = to.place(int(i));
    const auto h = rows.containing(place.h), w = columns.containing(place.w);
    Acc<T> sum[K] = {};
    for (int a = h.begin; a < h.end; ++a)
      for (int b = w.begin; b < w.end; ++b) {
        const int64_t at = from.at(place, a, b) * K;
        const auto won = load<K>(winner + at);
        const auto in = load<K>(dy + at);
        const int here = (place.h - rows.start(a)) * columns.kernel() + place.w - columns.start(b);
        for (int k = 0; k < K; ++k)
          if (won.at[k] == here) sum[k] += Acc<T>(in.at[k]);
      }
    store(dx + i * K, packed<T>(sum));
  }
}

template <class T>
__global__ void share_out(const T* dy, T* dx, int n, Layout from, Layout to, Windows rows,
                          Windows columns) {
  for (int64_t i = thread_index(); i < n; i += thread_count()) {
    const auto place = to.place(int(i));
    const auto h = rows.containing(place.h), w = columns.containing(place.w);
    Acc<T> sum = 0;
    for (int a = h.begin; a < h.end; ++a)
      for (int b = w.begin; b < w.end; ++b)
        sum += Acc<T>(dy[from.at(place, a, b)]) / Acc<T>(rows[a].size * columns[b].size);
    dx[i] = T(sum);
  }
}

// ---- host code

int count(const Tensor& t) {
  CHECK(t.numel() < int64_t{1} << 31, running_kernel(), ": ", t.shape(),
        " has more elements than 32-bit indices reach");
  return int(t.numel());
}

}  // namespace

// Calls fn.operator()<K>(), K elements per piece of images in this format.
template <class T, class Fn>
static void in_pieces_of(const Tensor& image, const MemoryFormat& format, const Fn& fn) {
  in_pieces<T>(fit_packs(image.bytes()) ? inner_of(image, format) : 1, fn);
}

static kernels::MaxPool max_forward(const Tensor& x_, const Windows& rows, const Windows& columns) {
  const MemoryFormat& format = format_of(x_);
  const Tensor x = contiguous(x_, format);
  const kernels::MaxPool out = kernels::max_pooled(x, rows, columns);
  count(x);
  const int n = count(out.y);
  if (n == 0) return out;
  visit_stored(x.dtype(), [&]<class T>(T) {
    kernels::visit_winner(out.winner.dtype(), [&]<class W>(W) {
      in_pieces_of<T>(x, format, [&]<int K>() {
        launch(take_largest<K, T, W>, grid_of(n / K), x.ptr<T>(), out.y.ptr<T>(),
               out.winner.ptr<W>(), n / K, Layout(x, format, K), Layout(out.y, format, K), rows,
               columns);
      });
    });
  });
  return out;
}

static Tensor avg_forward(const Tensor& x_, const Windows& rows, const Windows& columns) {
  const MemoryFormat& format = format_of(x_);
  const Tensor x = contiguous(x_, format), y = kernels::pooled(x, x.dtype(), rows, columns);
  count(x);
  if (const int n = count(y))
    visit_stored(x.dtype(), [&]<class T>(T) {
      launch(take_mean<T>, grid_of(n), x.ptr<T>(), y.ptr<T>(), n, Layout(x, format),
             Layout(y, format), rows, columns);
    });
  return y;
}

static Tensor max_backward(const Tensor& dy_, const Tensor& winner, const Shape& x,
                           const Windows& rows, const Windows& columns) {
  const MemoryFormat& format = format_of(winner);
  const Tensor dy = contiguous(dy_, format), dx(x, dy.dtype(), dy.device(), format);
  const int n = count(dx);
  if (n == 0) return dx;
  visit_stored(dy.dtype(), [&]<class T>(T) {
    kernels::visit_winner(winner.dtype(), [&]<class W>(W) {
      in_pieces_of<T>(dy, format, [&]<int K>() {
        launch(give_to_winner<K, T, W>, grid_of(n / K), dy.ptr<T>(), winner.ptr<W>(), dx.ptr<T>(),
               n / K, Layout(dy, format, K), Layout(dx, format, K), rows, columns);
      });
    });
  });
  return dx;
}

static Tensor avg_backward(const Tensor& dy_, const Shape& x, const Windows& rows,
                           const Windows& columns) {
  const MemoryFormat& format = format_of(dy_);
  const Tensor dy = contiguous(dy_, format), dx(x, dy.dtype(), dy.device(), format);
  if (const int n = count(dx))
    visit_stored(dy.dtype(), [&]<class T>(T) {
      launch(share_out<T>, grid_of(n), dy.ptr<T>(), dx.ptr<T>(), n, Layout(dy, format),
             Layout(dx, format), rows, columns);
    });
  return dx;
}

static const bool gpu = kernels::max_pool2d.on(Device::cuda, max_forward) &&
                        kernels::max_pool2d_backward.on(Device::cuda, max_backward) &&
                        kernels::avg_pool2d.on(Device::cuda, avg_forward) &&
                        kernels::avg_pool2d_backward.on(Device::cuda, avg_backward);

}  // namespace bellows
