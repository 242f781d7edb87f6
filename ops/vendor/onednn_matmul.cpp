// oneDNN's sgemm: the fastest of its products at the sizes of small nets, and nothing to prepare.
#include <dnnl.h>
#include "core/trace.h"
#include "ops/matmul.h"

namespace bellows {

namespace {
// How sgemm, which thinks in rows, sees one matrix of a batch.
struct Operand {
  explicit Operand(const Tensor& t)
      : rows(t.strides()[2] == 1 && (t.dim(1) == 1 || t.strides()[1] >= t.dim(2))),
        stride(rows ? t.strides()[1] : t.strides()[2]) {
    stride = std::max(stride, rows ? t.dim(2) : t.dim(1));  // of a single row: anything legal
  }
  char letter() const { return rows ? 'N' : 'T'; }
  bool rows;
  int64_t stride;
};
}  // namespace

static void sgemm(const Tensor& y, const Tensor& a, const Tensor& b, Into into, Slot& slot) {
  if (y.dtype() != DType::f32) return kernels::matmul.plain(y, a, b, into, slot);
  static trace::Counter& calls = trace::counter("kernel.vendor_calls");
  const Operand a_(a), b_(b);
  for (int64_t i = 0; i < y.dim(0); ++i) {
    const dnnl_status_t status = dnnl_sgemm(
        a_.letter(), b_.letter(), y.dim(1), y.dim(2), a.dim(2), 1,
        a.ptr<float>() + i * a.strides()[0], a_.stride, b.ptr<float>() + i * b.strides()[0],
        b_.stride, into == Into::add ? 1 : 0, y.ptr<float>() + i * y.strides()[0], y.strides()[1]);
    INVARIANT(status == dnnl_success, "dnnl_sgemm: status ", int(status));
    calls.add();
  }
}
static const bool vendor = kernels::matmul.vendor_on(Device::cpu, sgemm);

}  // namespace bellows
