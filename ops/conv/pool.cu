#include "core/device/launch.cuh"
#include "core/tensor/copy.h"
#include "ops/conv/pool.h"

namespace bellows {

namespace {

// ---- device code: one thread per element of y, or of dx. Backward gathers, so no two threads add
// to the same element and the order of each sum is fixed. Blocks of 256 threads.

// A dense image tensor in any memory format as (outer, height, width, inner). `inner` is 1 in NCHW,
// C in NHWC and N in CHWN.
struct Layout {
  Layout(const Tensor& t, const MemoryFormat& format)
      : height(std::max<int64_t>(t.dim(2), 1)),
        width(std::max<int64_t>(t.dim(3), 1)),
        inner(std::max<int64_t>(format == kNCHW ? 1 : t.dim(format == kNHWC ? 1 : 0), 1)) {}
  struct Place {
    int outer, h, w, inner;
  };
  __device__ Place place(int i) const {
    const int pixel = i / inner, row = pixel / width;
    return {row / height, row % height, pixel % width, i % inner};
  }
  // Offset of pixel (h, w) in the image that contains `place`.
  __device__ int64_t at(const Place& place, int64_t h, int64_t w) const {
    return ((place.outer * int64_t(height.size) + h) * width.size + w) * inner.size + place.inner;
  }
  Divisor height, width, inner;
};

template <class T>
__global__ void take_largest(const T* x, T* y, int* winner, int n, Layout from, Layout to,
                             Windows rows, Windows columns) {
  await_predecessor();
  for (int64_t i = thread_index(); i < n; i += thread_count()) {
    const auto place = to.place(int(i));
    const Window h = rows[place.h], w = columns[place.w];
    int64_t best = h.begin * from.width.size + w.begin;
    Acc<T> largest(x[from.at(place, h.begin, w.begin)]);
    for (int64_t a = h.begin; a < h.end; ++a)
      for (int64_t b = w.begin; b < w.end; ++b) {
        const Acc<T> value(x[from.at(place, a, b)]);
        if (value <= largest || largest != largest) continue;  // the first NaN wins
        largest = value, best = a * from.width.size + b;
      }
    y[i] = T(largest), winner[i] = int(best);
  }
}

template <class T>
__global__ void take_mean(const T* x, T* y, int n, Layout from, Layout to, Windows rows,
                          Windows columns) {
  await_predecessor();
  for (int64_t i = thread_index(); i < n; i += thread_count()) {
    const auto place = to.place(int(i));
    const Window h = rows[place.h], w = columns[place.w];
    Acc<T> sum = 0;
    for (int64_t a = h.begin; a < h.end; ++a)
      for (int64_t b = w.begin; b < w.end; ++b) sum += Acc<T>(x[from.at(place, a, b)]);
    y[i] = T(sum / Acc<T>(h.size * w.size));
  }
}

// dx = sum of dy over the windows whose maximum is this element.
template <class T>
__global__ void give_to_winner(const T* dy, const int* winner, T* dx, int n, Layout from, Layout to,
                               Windows rows, Windows columns) {
  await_predecessor();
  for (int64_t i = thread_index(); i < n; i += thread_count()) {
    const auto place = to.place(int(i));
    const auto h = rows.containing(place.h), w = columns.containing(place.w);
    const int here = place.h * to.width.size + place.w;
    Acc<T> sum = 0;
    for (int a = h.begin; a < h.end; ++a)
      for (int b = w.begin; b < w.end; ++b) {
        const int64_t at = from.at(place, a, b);
        if (winner[at] == here) sum += Acc<T>(dy[at]);
      }
    dx[i] = T(sum);
  }
}

template <class T>
__global__ void share_out(const T* dy, T* dx, int n, Layout from, Layout to, Windows rows,
                          Windows columns) {
  await_predecessor();
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

Tensor pooled(const Tensor& x, DType dtype, const Windows& rows, const Windows& columns) {
  return {{x.dim(0), x.dim(1), rows.size(), columns.size()}, dtype, x.device(), format_of(x)};
}

}  // namespace

static kernels::MaxPool max_forward(const Tensor& x_, const Windows& rows, const Windows& columns) {
  const MemoryFormat& format = format_of(x_);
  const Tensor x = contiguous(x_, format);
  const kernels::MaxPool out{pooled(x, x.dtype(), rows, columns),
                             pooled(x, DType::i32, rows, columns)};
  count(x);
  if (const int n = count(out.y))
    visit_stored(x.dtype(), [&]<class T>(T) {
      launch(take_largest<T>, grid_of(n), x.ptr<T>(), out.y.ptr<T>(), out.winner.ptr<int32_t>(), n,
             Layout(x, format), Layout(out.y, format), rows, columns);
    });
  return out;
}

static Tensor avg_forward(const Tensor& x_, const Windows& rows, const Windows& columns) {
  const MemoryFormat& format = format_of(x_);
  const Tensor x = contiguous(x_, format), y = pooled(x, x.dtype(), rows, columns);
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
  if (const int n = count(dx))
    visit_stored(dy.dtype(), [&]<class T>(T) {
      launch(give_to_winner<T>, grid_of(n), dy.ptr<T>(), winner.ptr<int32_t>(), dx.ptr<T>(), n,
             Layout(dy, format), Layout(dx, format), rows, columns);
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
