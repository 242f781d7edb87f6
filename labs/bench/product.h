// Matrix products in every precision of a device. `bench matmul` times them, `doctor --stress` also
// verifies them.
#pragma once
#include <vector>
#include "core/device/kernel_options.h"
#include "core/tensor/tensor.h"

namespace bellows {

struct Precision {
  const char* name;  // "TF32"
  DType dtype;
  bool tf32 = false;
  // Relative rounding error of an element when it is read, of a partial sum, and of a result.
  double read = 0, sum = 0x1p-24, result = 0;
};
// CPU: FP32, FP64 and, with AVX512-BF16, BF16. GPU: FP32, TF32, FP16 and BF16.
const std::vector<Precision>& precisions(Device device);

// y = a b, repeatable. The operands are random, and all three tensors are allocated on the device.
class Product {
 public:
  // a: (.., M, K), b: (K, N), y: (.., M, N), all of precision.dtype.
  Product(const Precision& precision, const Shape& a, const Shape& b, Device device);
  // Asynchronous on a GPU: runs on the current stream. `blas`: library of f32 products on the CPU.
  void run(Blas blas = Blas::onednn) const;
  // Floating-point operations of one run(): 2 M N K, with all leading axes in M.
  double flop() const;

  const Precision precision;
  const Tensor a, b, y;
};

// Returns the largest error of y in `rows`, divided by the rounding bound; infinity if an element
// of y is not finite. A result above 1 means that the hardware or the library is wrong. `rows` are
// indices into y with all leading axes folded. The reference is a product in f64 on the host, which
// reads b in blocks.
double worst_error(const Product& product, const std::vector<int64_t>& rows);

}  // namespace bellows
