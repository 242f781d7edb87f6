// matmul and linear layers with cuBLASLt: f32 (TF32 if enabled), and bf16 and f16 with sums in f32.
// Bias, bias gradient and relu are epilogues of the product. Gradient checks, in f64, run on the
// plain kernels.
#include "core/tensor/copy.h"
#include "ops/matmul/linear.h"
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

}  // namespace cublas

using namespace cublas;
using kernels::batched;

// Computes the y of a Problem. `extra` may be undefined if the epilogue needs none. Returns false,
// having done nothing, if a tensor is empty or f64, or, which is logged, if cuBLASLt is missing or
// none of its algorithms runs. plain() returns y, and for sum_a extra, as the plain kernel computes
// them.
template <class Plain>
static bool multiply(const Tensor& y, const Tensor& a, const Tensor& b, Into into,
                     Epilogue epilogue, const Tensor& extra, Slot& slot, const Plain& plain) {
  if (y.numel() == 0 || a.dim(2) == 0 || y.dtype() == DType::f64) return false;
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

static void multiply(const Tensor& y, const Tensor& a, const Tensor& b, Into into, Slot& slot) {
  const auto plain = [&] {
    const Tensor product = clone(y);
    kernels::matmul.plain(product, a, b, into, slot);
    return PlannedCall::Tensors{product};
  };
  if (!multiply(y, a, b, into, Epilogue::none, {}, slot, plain))
    kernels::matmul.plain(y, a, b, into, slot);
}

static Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b, Activation activation,
                     Slot& slot) {
  const bool relu = activation == Activation::relu;
  const Epilogue epilogue = b.defined() ? (relu ? Epilogue::add_row_relu : Epilogue::add_row)
                                        : (relu ? Epilogue::relu : Epilogue::none);
  const Tensor y = empty({x.dim(0), w.dim(0)}, x), bias = b.defined() ? contiguous(b) : b;
  const auto plain = [&] { return kernels::linear.plain(x, w, b, activation, slot); };
  const bool done =
      multiply(batched(y, 1), batched(x, 1), batched(transposed(w), 1), Into::overwrite, epilogue,
               bias, slot, [&] { return PlannedCall::Tensors{plain()}; });
  return done ? y : plain();
}

static void linear_backward_w(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& db,
                              Slot& slot) {
  const auto plain = [&] {
    const Tensor dw_ = empty_like(dw), db_ = empty_like(db);
    kernels::linear_backward_w.plain(dy, x, dw_, db_, slot);
    return PlannedCall::Tensors{dw_, db_};
  };
  const bool done = dw.defined() && db.defined() &&
                    multiply(batched(dw, 1), batched(transposed(dy), 1), batched(x, 1),
                             Into::overwrite, Epilogue::sum_a, db, slot, plain);
  if (!done) return kernels::linear_backward_w.plain(dy, x, dw, db, slot);
  dw.raise_version();
  db.raise_version();
}

static const bool gpu =
    kernels::matmul.vendor_on(Device::cuda, multiply, kVendor) &&
    kernels::linear.vendor_on(Device::cuda, linear, kVendor) &&
    kernels::linear_backward_w.vendor_on(Device::cuda, linear_backward_w, kVendor);

}  // namespace bellows
