#include "core/copy.h"
#include "core/parallel.h"
#include "core/trace.h"

namespace bellows {

static bool same_order(const Tensor& t, const Strides& strides) {
  for (int i = 0; i < t.rank(); ++i)
    if (t.dim(i) != 1 && t.strides()[i] != strides[i]) return false;
  return true;
}

void copy_into(const Tensor& to, const Tensor& from, const Place& at) {
  CHECK(to.shape() == from.shape(), "copy of ", from.shape(), " into ", to.shape());
  to.raise_version();
  if (to.device() == from.device()) return kernels::copy(to, from);
  CHECK(to.is_dense() && same_order(to, from.strides()) && to.dtype() == from.dtype(),
        "a copy between devices needs dense tensors of one order and dtype, got strides ",
        to.strides(), " and ", from.strides());
  static trace::Counter& in = trace::counter("copy.h2d_bytes");
  static trace::Counter& out = trace::counter("copy.d2h_bytes");
  const bool to_host = to.device() == Device::cpu;
  (to_host ? out : in).add(to.nbytes());
  const Device device = to_host ? from.device() : to.device();
  api_of(device).copy(to.bytes(), from.bytes(), to.nbytes(), current_stream(device));
  if (to_host) synchronize(current_stream(device), at);
}

Tensor to(Device device, const Tensor& t, const Place& at) {
  if (t.device() == device) return t;
  const Tensor dense = contiguous(t), y(t.shape(), t.dtype(), device);
  copy_into(y, dense, at);
  return y;
}

Tensor cast(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  Tensor y(t.shape(), dtype, t.device());
  if (t.is_dense()) y = y.view(t.shape(), t.strides(), 0);
  copy_into(y, t);
  return y;
}

Tensor contiguous(const Tensor& t, const MemoryFormat& format) {
  if (t.is_contiguous(format)) return t;
  detail::count_transpose();
  const Tensor y(t.shape(), t.dtype(), t.device(), format);
  copy_into(y, t);
  return y;
}

Tensor laid_out(const Tensor& t, const Strides& strides) {
  if (t.strides() == strides) return t;
  if (same_order(t, strides)) return t.view(t.shape(), strides, t.offset());
  detail::count_transpose();
  const Tensor y(t.shape(), strides, t.dtype(), t.device());
  copy_into(y, t);
  return y;
}

void detail::count_transpose() {
  static trace::Counter& transposes = trace::counter("layout.transposes");
  transposes.add();
}

Tensor clone(const Tensor& t) {
  const Tensor y(t.shape(), t.dtype(), t.device());
  copy_into(y, t);
  return y;
}

// ---- CPU

namespace {

// Axes in the order of the target's strides, outermost first, neighbours that are contiguous in
// both merged into one; sizes of 1 dropped.
struct Walk {
  std::array<int64_t, kMaxRank> size{}, to{}, from{};
  int rank = 0;
};

Walk plan_walk(const Tensor& to, const Tensor& from) {
  std::array<int, kMaxRank> order{};
  int n = 0;
  for (int i = 0; i < to.rank(); ++i)
    if (to.dim(i) != 1) order[n++] = i;
  sort_axes(order, n, [&](int a, int b) { return to.strides()[a] > to.strides()[b]; });
  Walk w;
  for (int k = 0; k < n; ++k) {
    const int i = order[k];
    const int64_t size = to.dim(i), t = to.strides()[i], f = from.strides()[i];
    if (w.rank && w.to[w.rank - 1] == t * size && w.from[w.rank - 1] == f * size) {
      w.size[w.rank - 1] *= size;
      w.to[w.rank - 1] = t;
      w.from[w.rank - 1] = f;
    } else {
      w.size[w.rank] = size, w.to[w.rank] = t, w.from[w.rank++] = f;
    }
  }
  if (w.rank == 0) w.size[0] = 1, w.to[0] = w.from[0] = 1, w.rank = 1;
  return w;
}

template <class To, class From> To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, Bf16> || std::is_same_v<From, F16>) {
    return To(float(value));
  } else if constexpr (std::is_same_v<To, Bf16> || std::is_same_v<To, F16>) {
    return To(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

// A transpose of the two innermost axes in square tiles: both sides stay in cache lines.
template <class To, class From>
void copy_tile(To* to, const From* from, const Walk& w, int a, int b) {
  constexpr int64_t kTile = 16;
  for (int64_t i0 = 0; i0 < w.size[a]; i0 += kTile)
    for (int64_t j0 = 0; j0 < w.size[b]; j0 += kTile)
      for (int64_t i = i0; i < std::min(i0 + kTile, w.size[a]); ++i)
        for (int64_t j = j0; j < std::min(j0 + kTile, w.size[b]); ++j)
          to[i * w.to[a] + j * w.to[b]] = convert<To>(from[i * w.from[a] + j * w.from[b]]);
}

template <class To, class From> void copy_rows(To* to, const From* from, const Walk& w, int axis) {
  const int left = w.rank - axis;
  if (left == 1) {
    const int64_t n = w.size[axis];
    if (w.to[axis] == 1 && w.from[axis] == 1) {  // unit strides: a memcpy, or vector code
      std::transform(from, from + n, to, convert<To, From>);
    } else {
      for (int64_t i = 0; i < n; ++i) to[i * w.to[axis]] = convert<To>(from[i * w.from[axis]]);
    }
  } else if (left == 2 && w.from[axis] < w.from[axis + 1]) {
    copy_tile(to, from, w, axis, axis + 1);
  } else {
    for (int64_t i = 0; i < w.size[axis]; ++i)
      copy_rows(to + i * w.to[axis], from + i * w.from[axis], w, axis + 1);
  }
}

}  // namespace

static void copy_cpu(const Tensor& to, const Tensor& from) {
  if (to.numel() == 0) return;
  Walk walk = plan_walk(to, from);
  visit_dtype(to.dtype(), [&]<class To>(To) {
    visit_dtype(from.dtype(), [&]<class From>(From) {
      To* const to_ = to.ptr<To>();
      const From* const from_ = from.ptr<From>();
      // The outermost axis is cut into chunks of about 32k elements, whatever the thread count.
      const int64_t inner = std::max<int64_t>(to.numel() / walk.size[0], 1);
      parallel_for(walk.size[0], std::max<int64_t>(32768 / inner, 1), [&](int64_t b, int64_t e) {
        Walk part = walk;
        part.size[0] = e - b;
        copy_rows(to_ + b * walk.to[0], from_ + b * walk.from[0], part, 0);
      });
    });
  });
}
static const bool cpu = kernels::copy.on(Device::cpu, copy_cpu);

}  // namespace bellows
