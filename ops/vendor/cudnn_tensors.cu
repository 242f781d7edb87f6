// The part of cuDNN's wrapper that does not call the library.
#include "core/tensor/copy.h"
#include "ops/vendor/cudnn.h"

namespace bellows::cudnn {

std::string loaded() { return available() ? "cuDNN " + version() : "no cuDNN"; }

static bool is_aligned(const Tensor& t) { return reinterpret_cast<uintptr_t>(t.bytes()) % 16 == 0; }
Tensor aligned(const Tensor& t) {
  if (is_aligned(t)) return t;
  const Tensor copy(t.shape(), t.strides(), t.dtype(), t.device());
  copy_into(copy, t);
  return copy;
}

Output::Output(const Tensor& t) : t_(t), written_(is_aligned(t) ? t : empty_like(t)) {}
Output::Output(const Tensor& t, const MemoryFormat& format)
    : t_(t),
      written_(t.is_contiguous(format) && is_aligned(t)
                   ? t
                   : Tensor(t.shape(), t.dtype(), t.device(), format)) {}
void Output::done() const {
  if (written_.bytes() == t_.bytes())
    t_.raise_version();
  else
    copy_into(t_, written_);
}

Filter filter() {
  const KernelOptions& options = kernel_options();
  return {options.tf32, options.deterministic, options.workspace_mb << 20};
}
std::ostream& operator<<(std::ostream& out, const Filter& filter) {
  return out << (filter.tf32 ? "tf32 " : "") << (filter.deterministic ? "deterministic " : "")
             << "workspace " << filter.workspace_bytes;
}

}  // namespace bellows::cudnn
