// Linear layers with cuBLASLt: bias, bias gradient and relu are epilogues of the product.
#include "core/tensor/copy.h"
#include "ops/matmul/linear.h"
#include "ops/vendor/cublas.h"

namespace bellows {

using cublas::Epilogue;
using kernels::batched;

static Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b, Activation activation,
                     Slot& slot) {
  const bool relu = activation == Activation::relu;
  const Epilogue epilogue = b.defined() ? (relu ? Epilogue::add_row_relu : Epilogue::add_row)
                                        : (relu ? Epilogue::relu : Epilogue::none);
  const Tensor y = empty({x.dim(0), w.dim(0)}, x), bias = b.defined() ? contiguous(b) : b;
  const auto plain = [&] { return kernels::linear.plain(x, w, b, activation, slot); };
  const bool done =
      cublas::multiply(batched(y, 1), batched(x, 1), batched(transposed(w), 1), Into::overwrite,
                       epilogue, bias, slot, [&] { return PlannedCall::Tensors{plain()}; });
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
                    cublas::multiply(batched(dw, 1), batched(transposed(dy), 1), batched(x, 1),
                                     Into::overwrite, Epilogue::sum_a, db, slot, plain);
  if (!done) return kernels::linear_backward_w.plain(dy, x, dw, db, slot);
  dw.raise_version();
  db.raise_version();
}

static const bool gpu =
    kernels::linear.vendor_on(Device::cuda, linear, cublas::kVendor) &&
    kernels::linear_backward_w.vendor_on(Device::cuda, linear_backward_w, cublas::kVendor);

}  // namespace bellows
