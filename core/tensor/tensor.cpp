#include "core/tensor/tensor.h"
#include "core/device/allocator.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"

namespace bellows {

Storage::Storage(size_t bytes, Device device)
    : Storage(allocate(device, bytes), bytes, device, release) {}

void record_use(const Tensor& t, Stream stream) { record_use(t.device(), t.bytes(), stream); }

// Axes other than batch and channels keep their order; size-1 axes get ordinary strides too.
Strides strides_of(const Shape& shape, const MemoryFormat& format) {
  const int rank = shape.rank();
  std::array<int, kMaxRank> order{};
  if (rank < 2 || format == kNCHW) {
    for (int i = 0; i < rank; ++i) order[i] = i;
  } else if (format == kNHWC) {
    for (int i = 0; i < rank; ++i) order[i] = i == 0 ? 0 : i == rank - 1 ? 1 : i + 1;
  } else {
    for (int i = 0; i < rank; ++i) order[i] = i == rank - 1 ? 0 : i + 1;
  }
  Strides strides = shape;
  int64_t step = 1;
  for (int i = rank - 1; i >= 0; --i) {
    strides[order[i]] = step;
    step *= std::max<int64_t>(shape[order[i]], 1);
  }
  return strides;
}

static bool is_row_major(const Shape& shape, const Strides& strides) {
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] == 1) continue;
    if (strides[i] != step) return shape.numel() == 0;
    step *= shape[i];
  }
  return true;
}

bool Tensor::is_contiguous(const MemoryFormat& format) const {
  if (format == kNCHW || numel() == 0) return is_row_major(shape_, strides_);
  const Strides want = strides_of(shape_, format);
  for (int i = 0; i < rank(); ++i)
    if (shape_[i] != 1 && strides_[i] != want[i]) return false;
  return true;
}

bool Tensor::is_dense() const {
  if (is_contiguous()) return true;
  // From the innermost axis outwards, each axis must start where the previous one ends.
  std::array<int, kMaxRank> order{};
  for (int i = 0; i < rank(); ++i) order[i] = i;
  sort_axes(order, rank(), [&](int a, int b) { return strides_[a] < strides_[b]; });
  int64_t step = 1;
  for (int i = 0; i < rank(); ++i) {
    if (shape_[order[i]] == 1) continue;
    if (strides_[order[i]] != step) return false;
    step *= shape_[order[i]];
  }
  return true;
}

double Tensor::item(const std::source_location& at) const {
  CHECK(numel() == 1, "item() of a tensor of shape ", shape_);
  const Tensor host = to(Device::cpu, detach(), at);
  return visit_dtype(dtype_, [&]<class T>(T) { return double(*host.ptr<T>()); });
}

Tensor Tensor::view(const Shape& shape, const Strides& strides, int64_t offset) const {
  Tensor t = detach();
  t.shape_ = shape;
  t.strides_ = strides;
  t.offset_ = offset;
  return t;
}

Tensor Tensor::view_as(const Shape& shape) const {
  CHECK(is_contiguous() && shape.numel() == numel(), "a tensor of shape ", shape_, ", strides ",
        strides_, " cannot be seen as ", shape);
  return view(shape, strides_of(shape), offset_);
}

Tensor empty(const Shape& shape, const Tensor& like) {
  return Tensor(shape, like.dtype(), like.device());
}

Tensor empty_like(const Tensor& t) {
  if (t.is_dense()) return Tensor(t.shape(), t.strides(), t.dtype(), t.device());
  return Tensor(t.shape(), t.dtype(), t.device());
}

const MemoryFormat& format_of(const Tensor& t) {
  for (const MemoryFormat* format : {&kNCHW, &kNHWC, &kCHWN})
    if (t.strides() == strides_of(t.shape(), *format)) return *format;
  for (const MemoryFormat* format : {&kNCHW, &kNHWC, &kCHWN})
    if (t.is_contiguous(*format)) return *format;
  return kNCHW;
}

Tensor full(const Shape& shape, double value, DType dtype, Device device) {
  const Tensor t(shape, dtype, device);
  fill(t, value);
  return t;
}
Tensor full(const Shape& shape, double value, const Tensor& like) {
  return full(shape, value, like.dtype(), like.device());
}
Tensor zeros(const Shape& shape, DType dtype, Device device) {
  return full(shape, 0, dtype, device);
}

template <class T>
Tensor tensor_of(const std::vector<T>& values, const Shape& shape, Device device) {
  CHECK(shape.numel() == int64_t(values.size()), values.size(), " values for shape ", shape);
  const Tensor t(shape, dtype_of<T>);
  std::ranges::copy(values, t.ptr<T>());
  return to(device, t);
}
template Tensor tensor_of(const std::vector<float>&, const Shape&, Device);
template Tensor tensor_of(const std::vector<double>&, const Shape&, Device);
template Tensor tensor_of(const std::vector<int64_t>&, const Shape&, Device);
template Tensor tensor_of(const std::vector<int32_t>&, const Shape&, Device);
template Tensor tensor_of(const std::vector<uint8_t>&, const Shape&, Device);

}  // namespace bellows
