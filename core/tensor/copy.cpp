#include "core/tensor/copy.h"
#include "core/device/parallel.h"
#include "core/tensor/walk.h"

namespace bellows {

static bool same_order(const Tensor& t, const Strides& strides) {
  for (int i = 0; i < t.rank(); ++i)
    if (t.dim(i) != 1 && t.strides()[i] != strides[i]) return false;
  return true;
}

void copy_into(const Tensor& to, const Tensor& from, const Place& at) {
  CHECK(to.shape() == from.shape(), "copy of ", from.shape(), " into ", to.shape());
  to.raise_version();
  if (to.numel() == 0) return;
  if (to.device() == from.device()) return kernels::copy(to, from);
  CHECK(to.is_dense() && same_order(to, from.strides()) && to.dtype() == from.dtype(),
        "a copy between devices needs dense tensors with one memory order and dtype, got strides ",
        to.strides(), " and ", from.strides());
  const bool to_host = to.device() == Device::cpu;
  to_host ? trace::count<"copy.d2h_bytes">(to.nbytes())
          : trace::count<"copy.h2d_bytes">(to.nbytes());
  const Device device = to_host ? from.device() : to.device();
  api_of(device).copy(to.bytes(), from.bytes(), to.nbytes(), current_stream(device));
  if (to_host) synchronize(current_stream(device), at);
}

// Returns `y` with the values of `t`.
static Tensor filled(Tensor y, const Tensor& t, const Place& at = Place::current()) {
  copy_into(y, t, at);
  return y;
}

Tensor to(Device device, const Tensor& t, const Place& at) {
  if (t.device() == device) return t;
  return filled(Tensor(t.shape(), t.dtype(), device), contiguous(t), at);
}

Tensor cast(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  const Strides strides = t.is_dense() ? t.strides() : strides_of(t.shape());
  return filled(Tensor(t.shape(), strides, dtype, t.device()), t);
}

Tensor contiguous(const Tensor& t, const MemoryFormat& format) {
  if (t.is_contiguous(format)) return t;
  trace::count<"layout.transposes">();
  return filled(Tensor(t.shape(), t.dtype(), t.device(), format), t);
}

Tensor laid_out(const Tensor& t, const Strides& strides) {
  if (t.strides() == strides) return t;
  if (same_order(t, strides)) return t.view(t.shape(), strides, t.offset());
  trace::count<"layout.transposes">();
  return filled(Tensor(t.shape(), strides, t.dtype(), t.device()), t);
}

Tensor clone(const Tensor& t) { return filled(Tensor(t.shape(), t.dtype(), t.device()), t); }

// ---- CPU

namespace {

// Transposes the two innermost axes in square tiles, so that both sides stay in cache lines. n:
// size of the outer one.
template <class To, class From>
void copy_tile(To* to, const From* from, int64_t n, const Walk<2>& walk) {
  constexpr int64_t kTile = 16;
  const int axis = walk.rank() - 2;
  const int64_t m = walk.size(axis + 1);
  const auto [to_row, from_row] = walk.step(axis);
  const auto [to_step, from_step] = walk.steps;
  for (int64_t i0 = 0; i0 < n; i0 += kTile)
    for (int64_t j0 = 0; j0 < m; j0 += kTile)
      for (int64_t i = i0; i < std::min(i0 + kTile, n); ++i)
        for (int64_t j = j0; j < std::min(j0 + kTile, m); ++j)
          to[i * to_row + j * to_step] = convert<To>(from[i * from_row + j * from_step]);
}

// Copies n elements along `axis`, each with all inner axes.
template <class To, class From>
void copy_rows(To* to, const From* from, int64_t n, const Walk<2>& walk, int axis) {
  const int left = walk.rank() - axis;
  const auto [to_step, from_step] = walk.step(axis);
  if (left <= 1) {
    if (to_step == 1 && from_step == 1) {  // a memcpy, or vector code
      std::transform(from, from + n, to, convert<To, From>);
    } else {
      for (int64_t i = 0; i < n; ++i) to[i * to_step] = convert<To>(from[i * from_step]);
    }
  } else if (left == 2 && from_step < walk.steps[1]) {
    copy_tile(to, from, n, walk);
  } else {
    const int64_t within = walk.size(axis + 1);
    for (int64_t i = 0; i < n; ++i)
      copy_rows(to + i * to_step, from + i * from_step, within, walk, axis + 1);
  }
}

}  // namespace

static void copy_cpu(const Tensor& to, const Tensor& from) {
  if (to.numel() == 0) return;
  const Walk<2> walk(to.shape(), {&to.strides(), &from.strides()});
  const int64_t outer = walk.rank() ? walk.size(0) : 1;
  visit_dtype(to.dtype(), [&]<class To>(To) {
    visit_dtype(from.dtype(), [&]<class From>(From) {
      To* const to_ = to.ptr<To>();
      const From* const from_ = from.ptr<From>();
      // Chunks of about 32k elements along the outermost axis, for any thread count.
      const int64_t inner = std::max<int64_t>(to.numel() / outer, 1);
      parallel_for(outer, std::max<int64_t>(32768 / inner, 1), [&](int64_t b, int64_t e) {
        const auto [to_step, from_step] = walk.step(0);
        copy_rows(to_ + b * to_step, from_ + b * from_step, e - b, walk, 0);
      });
    });
  });
}
static const bool cpu = kernels::copy.on(Device::cpu, copy_cpu);

}  // namespace bellows
