#include "core/tensor/pinned.h"
#include "core/base/trace.h"

namespace bellows {

static void release_pinned(Device, void* memory, size_t bytes) noexcept {
  api_of(Device::cuda).release_pinned(memory, bytes);
}

Tensor pinned(const Shape& shape, DType dtype) {
  const size_t bytes = shape.numel() * size_of(dtype);
  void* const memory = api_of(Device::cuda).allocate_pinned(std::max<size_t>(bytes, 1));
  if (!memory)
    fail(Exit::memory, "no page-locked memory: asked for ", bytes,
         " bytes; write  toggles: {pin_memory: off}");
  trace::count<"alloc.pinned_bytes">(static_cast<int64_t>(bytes));
  return Tensor(Ref(new Storage(memory, bytes, Device::cpu, release_pinned)), shape, dtype);
}

bool is_pinned(const Tensor& t) { return t.storage()->is_from(release_pinned); }

}  // namespace bellows
