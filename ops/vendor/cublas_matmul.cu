// matmul with cuBLASLt: f32 (TF32 if enabled), f64, and bf16 and f16 with sums in f32.
#include "core/tensor/copy.h"
#include "ops/vendor/cublas.h"

namespace bellows {

namespace cublas {

// Largest power of two up to 256 that divides the address.
static uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address) | 256;
  return uint32_t(bits & -bits);
}

Operand::Operand(const Tensor& t)
    : rows(t.dim(1)),
      columns(t.dim(2)),
      batch_stride(t.strides()[0]),
      layout(*matrix_layout(t)),
      alignment(alignment_of(t.bytes())) {}

Problem::Problem(const Tensor& y, const Tensor& a, const Tensor& b, Into into, Epilogue epilogue,
                 const void* extra)
    : dtype(y.dtype()),
      batch(y.dim(0)),
      y(y),
      a(a),
      b(b),
      into(into),
      epilogue(epilogue),
      extra_alignment(alignment_of(extra)),
      tf32(dtype == DType::f32 && kernel_options().tf32),
      workspace_bytes(std::min<int64_t>(32, kernel_options().workspace_mb) << 20) {}

static std::ostream& operator<<(std::ostream& out, const Operand& t) {
  return out << t.rows << 'x' << t.columns << (t.layout.transposed ? "T/" : "/") << t.layout.stride
             << '/' << t.batch_stride << '@' << t.alignment;
}
std::ostream& operator<<(std::ostream& out, const Problem& p) {
  constexpr const char* kEpilogues[] = {"", " relu", " add_row", " add_row_relu", " sum_a"};
  return out << "product " << p.dtype << (p.tf32 ? " tf32 " : " ") << p.batch << " of " << p.a
             << " by " << p.b << (p.into == Into::add ? " added to " : " to ") << p.y
             << kEpilogues[int(p.epilogue)] << '@' << p.extra_alignment << " workspace "
             << p.workspace_bytes;
}

bool multiply(const Tensor& y, const Tensor& a, const Tensor& b, Into into, Epilogue epilogue,
              const Tensor& extra, Slot& slot, const Plain& plain) {
  if (y.numel() == 0 || a.dim(2) == 0) return false;
  if (!available()) return note_fallback("no cuBLASLt"), false;
  const Problem problem(y, a, b, into, epilogue, extra.defined() ? extra.bytes() : nullptr);
  const auto call = planned_call(slot, loaded(), problem);
  const auto run = [&](const VendorPlan& plan) {
    const Tensor out = into == Into::add ? clone(y) : y;  // a trial repeats, so it adds to a copy
    plan.run({{kY, out}, {kA, a}, {kB, b}, {kExtra, extra}});
    return epilogue == Epilogue::sum_a ? PlannedCall::Tensors{out, extra}
                                       : PlannedCall::Tensors{out};
  };
  return call->run({{kY, y}, {kA, a}, {kB, b}, {kExtra, extra}}, [&] {
    return PlannedCall::Trial{run, plain};
  });
}

}  // namespace cublas

static void multiply(const Tensor& y, const Tensor& a, const Tensor& b, Into into, Slot& slot) {
  const auto plain = [&] {
    const Tensor product = clone(y);
    kernels::matmul.plain(product, a, b, into, slot);
    return PlannedCall::Tensors{product};
  };
  if (!cublas::multiply(y, a, b, into, cublas::Epilogue::none, {}, slot, plain))
    kernels::matmul.plain(y, a, b, into, slot);
}

static const bool gpu = kernels::matmul.vendor_on(Device::cuda, multiply, cublas::kVendor);

}  // namespace bellows
