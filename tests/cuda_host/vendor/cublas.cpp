// Replaces ops/vendor/cublas.cu: each product is computed by the plain kernel of the CPU.
#include "ops/vendor/cublas.h"
#include "core/tensor/copy.h"
#include "ops/matmul/linear.h"
#include "ops/reduce.h"
#include "tests/cuda_host/vendor/vendor.h"

using namespace bellows;
using cuda_host::View;

namespace bellows::cublas {

bool available() { return true; }
std::string loaded() { return "stand-in for cuBLASLt"; }

static Shape shape_of(const Problem& problem, const Operand& operand) {
  return {problem.batch, operand.rows, operand.columns};
}
static View view_of(const Problem& problem, const Operand& t, const void* address) {
  const auto [row, column] = t.layout.transposed ? std::pair(int64_t{1}, t.layout.stride)
                                                 : std::pair(t.layout.stride, int64_t{1});
  return {address, shape_of(problem, t), {t.batch_stride, row, column}, problem.dtype};
}

Proposals propose(const Problem& p, Search) {
  return cuda_host::propose_plans("cublasLtMatmul", p.tf32, [p](Bindings bindings) {
    const void* at[4] = {};
    for (const auto& [tensor, address] : bindings) at[tensor] = address;
    const View y = view_of(p, p.y, at[kY]), a = view_of(p, p.a, at[kA]),
               b = view_of(p, p.b, at[kB]);
    const int64_t length = p.epilogue == Epilogue::sum_a ? p.y.rows : p.y.columns;
    const View extra = at[kExtra] ? View{at[kExtra], {length}, {1}, p.dtype} : View();
    return [=](bool wrong) {
      Slot slot;
      const Tensor left = a.load(), product(shape_of(p, p.y), left.dtype());
      kernels::matmul.plain(product, left, b.load(), Into::overwrite, slot);
      const bool row = p.epilogue == Epilogue::add_row || p.epilogue == Epilogue::add_row_relu;
      const bool relu = p.epilogue == Epilogue::relu || p.epilogue == Epilogue::add_row_relu;
      const Tensor bias = row ? cast(extra.load(), DType::f64) : Tensor();
      const Tensor wide = cast(product, DType::f64);
      const Tensor added = p.into == Into::add ? cast(y.load(), DType::f64) : Tensor();
      double* const values = wide.ptr<double>();
      for (int64_t i = 0; i < wide.numel(); ++i) {
        if (added.defined()) values[i] += added.ptr<double>()[i];
        if (row) values[i] += bias.ptr<double>()[i % length];
        if (relu && values[i] <= 0) values[i] = 0;
        if (wrong) values[i] += 1;
      }
      y.store(cast(wide, product.dtype()));
      if (p.epilogue == Epilogue::sum_a)
        extra.store(kernels::sum(left, {1, length, 1}, 1).view_as({length}));
    };
  });
}

}  // namespace bellows::cublas
