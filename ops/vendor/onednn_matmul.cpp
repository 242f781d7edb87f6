// matmul with oneDNN. f32: dnnl_sgemm, which needs no preparation and is the fastest at the sizes
// of small models. bf16 and f16: its matmul primitive.
#include <dnnl.h>
#include "core/base/trace.h"
#include "ops/matmul/matmul.h"
#include "ops/vendor/onednn.h"
#include "ops/vendor/sgemm_tiles.h"

namespace bellows {

static void sgemm(const Tensor& y, const Tensor& a, const Tensor& b, Into into) {
  const MatrixLayout a_ = *matrix_layout(a), b_ = *matrix_layout(b);
  const auto tile = [&](int64_t rows, int64_t columns, const float* from_a, const float* from_b,
                        float* to) {
    const dnnl_status_t status = dnnl_sgemm(
        a_.transposed ? 'T' : 'N', b_.transposed ? 'T' : 'N', rows, columns, a.dim(2), 1, from_a,
        a_.stride, from_b, b_.stride, into == Into::add ? 1 : 0, to, y.strides()[1]);
    // With valid arguments sgemm fails only if it cannot allocate memory for generated code.
    if (status == dnnl_unimplemented || status == dnnl_runtime_error)
      onednn::refuse(dnnl_out_of_memory, "no memory for the code of sgemm");
    if (status != dnnl_success) onednn::refuse(status, "could not execute sgemm");
  };
  for_each_tile(y, a, b, tile);
  trace::count<"blas.onednn">(y.dim(0));
  trace::count<"kernel.vendor_calls">(y.dim(0));
}

// ---- bf16 and f16

namespace {
struct View {
  Shape shape;
  Strides strides;
  DType dtype;
  bool operator==(const View&) const = default;
  dnnl::memory::desc desc() const {
    return {dnnl::memory::dims(shape.begin(), shape.end()), onednn::type_of(dtype),
            dnnl::memory::dims(strides.begin(), strides.end())};
  }
};
struct Key {
  View y, a, b;
  Into into;
  int threads = omp_get_max_threads();  // the primitive is created for a fixed thread count
  bool operator==(const Key&) const = default;
};
// Describes t for the primitive. A single product is 2-D, because oneDNN 3.2 has only the reference
// implementation for that case in 3-D. A matrix shared by the batch (batch stride 0) has batch size
// 1.
View view_of(const Tensor& t, bool batch) {
  const auto [transposed, step] = *matrix_layout(t);
  const int64_t row = transposed ? 1 : step, column = transposed ? step : 1;
  const int64_t rows = t.dim(1), columns = t.dim(2), matrix = t.strides()[0];
  if (!batch) return {{rows, columns}, {row, column}, t.dtype()};
  return {{matrix ? t.dim(0) : 1, rows, columns}, {matrix, row, column}, t.dtype()};
}

struct Product : onednn::Plan {
  explicit Product(const Key& key)
      : Plan(dnnl::matmul(
            {onednn::engine(), key.a.desc(), key.b.desc(), key.y.desc(), attributes(key.into)})) {}
  static dnnl::primitive_attr attributes(Into into) {
    dnnl::primitive_attr attributes;
    dnnl::post_ops after;
    if (into == Into::add) after.append_sum(1);
    attributes.set_post_ops(after);
    return attributes;
  }
};
}  // namespace

static void product(const Tensor& y, const Tensor& a, const Tensor& b, Into into, Slot& slot) {
  const bool batch = y.dim(0) > 1;
  const Key key{view_of(y, batch), view_of(a, batch), view_of(b, batch), into};
  onednn::plan_for<Product>(slot, key).run(
      {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, y}});
}

static void matmul(const Tensor& y, const Tensor& a, const Tensor& b, Into into, Slot& slot) {
  const bool something = a.dim(2) > 0 && y.numel() > 0;  // sgemm with K = 0 writes no zeros
  if (something && y.dtype() == DType::f32) return sgemm(y, a, b, into);
  if (something && onednn::computes(y.dtype())) return product(y, a, b, into, slot);
  kernels::matmul.plain(y, a, b, into, slot);
}
static const bool vendor = kernels::matmul.vendor_on(Device::cpu, matmul);

}  // namespace bellows
