// Page-locked host memory, which a device copies from and to while the host continues.
#pragma once
#include "core/base/trace.h"
#include "core/tensor/tensor.h"

namespace bellows {

namespace detail {
inline void release_pinned(Device, void* memory, size_t bytes) noexcept {
  api_of(Device::cuda).release_pinned(memory, bytes);
}
}  // namespace detail

// Returns a dense tensor on Device::cpu, not initialized. Allocation is slow, so reuse it. Before
// the last handle is dropped, its owner must make sure that no copy still uses the memory. Throws
// Error, exit 6, if out of memory. Adds its size to alloc.pinned_bytes.
inline Tensor pinned(const Shape& shape, DType dtype) {
  const size_t bytes = shape.numel() * size_of(dtype);
  void* const memory = api_of(Device::cuda).allocate_pinned(std::max<size_t>(bytes, 1));
  if (!memory)
    fail(Exit::memory, "no page-locked memory: asked for ", bytes,
         " bytes; write  toggles: {pin_memory: off}");
  trace::count<"alloc.pinned_bytes">(static_cast<int64_t>(bytes));
  return Tensor(Ref(new Storage(memory, bytes, Device::cpu, detail::release_pinned)), shape, dtype);
}
inline bool is_pinned(const Tensor& t) { return t.storage()->is_from(detail::release_pinned); }

}  // namespace bellows
