#include "ops/conv/pool.h"
#include "core/device/parallel.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "core/tensor/in_f32.h"
#include "ops/base/lanes.h"
#include "ops/base/op.h"
#include "ops/base/work.h"

namespace bellows {

// ---- the ops

static Windows windows(const char* op, const Shape& x, int axis, const Pool2dOptions& o) {
  CHECK(x.rank() == 4, op, ": needs x (N, C, H, W), got ", x);
  CHECK(o.kernel >= 1 && o.stride >= 1 && o.padding >= 0 && 2 * o.padding <= o.kernel &&
            x[axis] >= 1 && x[axis] + 2 * o.padding >= o.kernel,
        op, ": kernel ", o.kernel, ", stride ", o.stride, ", padding ", o.padding, " do not fit x ",
        x, "; padding is at most half the kernel");
  return Windows::sliding(x[axis], o);
}

static Windows even_windows(const Shape& x, int axis, int64_t count) {
  CHECK(x.rank() == 4 && x[axis] >= 1 && count >= 1, "adaptive_avg_pool2d: cannot cut x ", x,
        " into ", count, " windows");
  return Windows::even(x[axis], count);
}

Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options) {
  const Windows rows = windows("max_pool2d", x.shape(), 2, options),
                columns = windows("max_pool2d", x.shape(), 3, options);
  count_layout(x);
  const auto [y, winner] = kernels::max_pool2d(x, rows, columns);
  if (!will_record(x)) return y;
  return record("max_pool2d", y, {x},
                [winner = Saved(winner), shape = x.shape(), rows, columns](const Tensor& dy) {
                  return Grads{kernels::max_pool2d_backward(dy, winner(), shape, rows, columns)};
                });
}

static Tensor average(const char* op, const Tensor& x, const Windows& rows,
                      const Windows& columns) {
  count_layout(x);
  const Tensor y = kernels::avg_pool2d(x, rows, columns);
  if (!will_record(x)) return y;
  // Brings dy into the memory format of x, which the strides of a single pixel do not determine.
  return record(
      op, y, {x}, [strides = y.strides(), shape = x.shape(), rows, columns](const Tensor& dy) {
        return Grads{kernels::avg_pool2d_backward(laid_out(dy, strides), shape, rows, columns)};
      });
}

// The gradient needs neither x nor y, only where each maximum was: a byte for each of them.
static OpWork work_of_pool(const RecordedOp& op) {
  const double winners = op.name == "max_pool2d" ? double(op.y.numel()) : 0,
               bytes = op.inputs.at(0).bytes() + result_bytes(op) + winners;
  return {{0, bytes}, {0, bytes}};
}
static const AddWork works[] = {{"max_pool2d", work_of_pool},
                                {"avg_pool2d", work_of_pool},
                                {"adaptive_avg_pool2d", work_of_pool}};

Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options) {
  return average("avg_pool2d", x, windows("avg_pool2d", x.shape(), 2, options),
                 windows("avg_pool2d", x.shape(), 3, options));
}

Tensor adaptive_avg_pool2d(const Tensor& x, int64_t height, int64_t width) {
  return average("adaptive_avg_pool2d", x, even_windows(x.shape(), 2, height),
                 even_windows(x.shape(), 3, width));
}

static constexpr Pool2dOptions kOverlap{.kernel = 3, .stride = 2, .padding = 1};
static const AddOp max_spec({.name = "max_pool2d",
                             .math = "y = largest of each window",
                             .cases = {{{2, 3, 6, 5}}, {{2, 3, 2, 2}}},
                             .run = [](const Inputs& in) { return max_pool2d(in[0]); },
                             .rejects = {{{2, 3, 1, 4}}, {{3, 4, 4}}},
                             .large = {{{17, 6, 28, 28}}},
                             .distinct = true});
static const AddOp max_overlap({.name = "max_pool2d",
                                .math = "y = largest of each window",
                                .cases = {{{2, 3, 7, 6}}},
                                .run = [](const Inputs& in) { return max_pool2d(in[0], kOverlap); },
                                .rejects = {{{2, 3, 7, 0}}},
                                .variant = "3x3 stride 2 padding 1",
                                .distinct = true});
static const AddOp avg_spec({.name = "avg_pool2d",
                             .math = "y = mean of each window, the padding included",
                             .cases = {{{2, 3, 7, 6}}},
                             .run = [](const Inputs& in) { return avg_pool2d(in[0], kOverlap); },
                             .rejects = {{{2, 3, 0, 4}}},
                             .large = {{{17, 6, 28, 28}}}});
static const AddOp adaptive_spec(
    {.name = "adaptive_avg_pool2d",
     .math = "y = means over an even grid of windows",
     .cases = {{{2, 3, 7, 5}}, {{2, 2, 2, 2}}},
     .run = [](const Inputs& in) { return adaptive_avg_pool2d(in[0], 3, 2); },
     .rejects = {{{3, 4, 4}}, {{2, 3, 0, 4}}}});

// ---- CPU: a row of contiguous elements at a time

namespace {

// A dense image tensor as rows of `count` contiguous elements: the batch in CHWN, the channels in
// NHWC, single elements in NCHW. Each pixel has `rows` of them, numbered from the outermost axis.
struct RowsOf {
  RowsOf(const Tensor& t, const MemoryFormat& format)
      : strides(t.strides()),
        count(format == kNHWC   ? t.dim(1)
              : format == kCHWN ? t.dim(0)
                                : 1),
        rows(t.dim(0) * t.dim(1) / std::max<int64_t>(count, 1)),
        channels(format == kNHWC ? 1 : t.dim(1)) {}
  // Returns the offset of pixel (h, w) of row r, in elements.
  int64_t at(int64_t r, int64_t h, int64_t w) const {
    return r / channels * strides[0] + r % channels * strides[1] + h * strides[2] + w * strides[3];
  }
  Strides strides;
  int64_t count, rows, channels;
};

// Calls fn.operator()<L>(row, i, j) for every row and pixel of y, in parallel. Rows share no
// inputs.
template <class A, class Fn>
void for_each_pixel(const RowsOf& rows, const Tensor& y, const Fn& fn) {
  const int64_t OH = y.dim(2), OW = y.dim(3), size = std::max<int64_t>(OH * OW * rows.count, 1);
  parallel_for(rows.rows, std::max<int64_t>(1, 4096 / size), [&](int64_t begin, int64_t end) {
    in_lanes<A>([&]<int L>() __attribute__((always_inline)) {
      for (int64_t r = begin; r < end; ++r)
        for (int64_t i = 0; i < OH; ++i)
          for (int64_t j = 0; j < OW; ++j) fn.template operator()<L>(r, i, j);
    });
  });
}

}  // namespace

// Writes the maximum of the window for each element of a row, and its place in the window. (top,
// left): the place of *first; columns: the width of the window.
template <int L, class T, class W>
[[gnu::always_inline]] inline void largest(const T* first, const RowsOf& from, const Window& h,
                                           const Window& w, int64_t top, int64_t left,
                                           int64_t columns, T* y, W* winner) {
  using A = Acc<T>;
  using M = MaskOf<A>;
  along<L>(
      from.count, [&]<int K>(int64_t k) __attribute__((always_inline)) {
        Lanes<A, K> best = load<K>(first + k);
        Lanes<M, K> at = Lanes<M, K>{} + M(top * columns + left);
        for (int64_t a = 0; a < h.end - h.begin; ++a)
          for (int64_t b = 0; b < w.end - w.begin; ++b) {
            const Lanes<A, K> tap = load<K>(first + a * from.strides[2] + b * from.strides[3] + k);
            const Lanes<M, K> here = Lanes<M, K>{} + M((top + a) * columns + left + b);
            const Lanes<M, K> keep = (Lanes<M, K>)(tap <= best) | nan_mask<A, K>(best);
            at = (at & keep) | (here & ~keep);  // the first NaN wins
            best = (Lanes<A, K>)(((Lanes<M, K>)best & keep) | ((Lanes<M, K>)tap & ~keep));
          }
        store<K>(y + k, best);
        store<K>(winner + k, __builtin_convertvector(at, Lanes<W, K>));
      });
}

static kernels::MaxPool max_forward(const Tensor& x_, const Windows& rows, const Windows& columns) {
  const MemoryFormat& format = format_of(x_);
  const Tensor x = contiguous(x_, format);
  const kernels::MaxPool out = kernels::max_pooled(x, rows, columns);
  const RowsOf from(x, format), to(out.y, format);
  visit_stored(x.dtype(), [&]<class T>(T) {
    kernels::visit_winner(out.winner.dtype(), [&]<class W>(W) {
      for_each_pixel<Acc<T>>(
          to, out.y, [&]<int L>(int64_t r, int64_t i, int64_t j) __attribute__((always_inline)) {
            const Window h = rows[i], w = columns[j];
            largest<L>(x.ptr<T>() + from.at(r, h.begin, w.begin), from, h, w,
                       h.begin - rows.start(i), w.begin - columns.start(j), columns.kernel(),
                       out.y.ptr<T>() + to.at(r, i, j), out.winner.ptr<W>() + to.at(r, i, j));
          });
    });
  });
  return out;
}

static Tensor max_backward(const Tensor& dy_, const Tensor& winner, const Shape& x,
                           const Windows& rows, const Windows& columns) {
  const MemoryFormat& format = format_of(winner);
  const Tensor dy = contiguous(dy_, format), dx(x, dy.dtype(), dy.device(), format);
  fill(dx, 0);
  const RowsOf from(dy, format), to(dx, format);
  visit_stored(dy.dtype(), [&]<class T>(T) {
    // Distance between neighboring pixels; the elements of a row are between them.
    const int64_t pixel = to.count == 1 ? 1 : to.strides[3];
    std::vector<int64_t> places;  // offset of each place in a window from its first
    for (int64_t a = 0; a < rows.kernel(); ++a)
      for (int64_t b = 0; b < columns.kernel(); ++b) places.push_back((a * x[3] + b) * pixel);
    kernels::visit_winner(winner.dtype(), [&]<class W>(W) {
      for_each_pixel<Acc<T>>(from, dy, [&]<int>(int64_t r, int64_t i, int64_t j) {
        const T* const g = dy.ptr<T>() + from.at(r, i, j);
        const W* const at = winner.ptr<W>() + from.at(r, i, j);
        T* const image = dx.ptr<T>() + to.at(r, 0, 0);
        const int64_t first = (rows.start(i) * x[3] + columns.start(j)) * pixel;
        for (int64_t k = 0; k < from.count; ++k) {
          T& to_winner = image[first + places[at[k]] + k];
          to_winner = T(Acc<T>(to_winner) + Acc<T>(g[k]));
        }
      });
    });
  });
  return dx;
}

static Tensor avg_forward(const Tensor& x_, const Windows& rows, const Windows& columns) {
  const MemoryFormat& format = format_of(x_);
  const Tensor x = contiguous(x_, format), out = kernels::pooled(x, x.dtype(), rows, columns);
  const RowsOf from(x, format), to(out, format);
  visit_float(x.dtype(), [&]<class T>(T) {
    for_each_pixel<T>(to, out, [&]<int>(int64_t r, int64_t i, int64_t j) {
      T* const y = out.ptr<T>() + to.at(r, i, j);
      const Window h = rows[i], w = columns[j];
      std::fill_n(y, to.count, T(0));
      for (int64_t a = h.begin; a < h.end; ++a)
        for (int64_t b = w.begin; b < w.end; ++b) {
          const T* const tap = x.ptr<T>() + from.at(r, a, b);
          for (int64_t k = 0; k < to.count; ++k) y[k] += tap[k];
        }
      for (int64_t k = 0; k < to.count; ++k) y[k] /= T(h.size * w.size);
    });
  });
  return out;
}

static Tensor avg_backward(const Tensor& dy_, const Shape& x, const Windows& rows,
                           const Windows& columns) {
  const MemoryFormat& format = format_of(dy_);
  const Tensor dy = contiguous(dy_, format), dx(x, dy.dtype(), dy.device(), format);
  fill(dx, 0);
  const RowsOf from(dy, format), to(dx, format);
  visit_float(dy.dtype(), [&]<class T>(T) {
    for_each_pixel<T>(from, dy, [&]<int>(int64_t r, int64_t i, int64_t j) {
      const T* const g = dy.ptr<T>() + from.at(r, i, j);
      const Window h = rows[i], w = columns[j];
      const T share = 1 / T(h.size * w.size);
      for (int64_t a = h.begin; a < h.end; ++a)
        for (int64_t b = w.begin; b < w.end; ++b) {
          T* const tap = dx.ptr<T>() + to.at(r, a, b);
          for (int64_t k = 0; k < from.count; ++k) tap[k] += g[k] * share;
        }
    });
  });
  return dx;
}

static const bool cpu = kernels::max_pool2d.on(Device::cpu, max_forward) &&
                        kernels::max_pool2d_backward.on(Device::cpu, max_backward) &&
                        kernels::avg_pool2d.on(Device::cpu, in_f32<avg_forward>) &&
                        kernels::avg_pool2d_backward.on(Device::cpu, in_f32<avg_backward>);

}  // namespace bellows
