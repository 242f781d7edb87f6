// Matrix products in every precision that a device has: what `bench matmul` times and
// `doctor --stress` also verifies.
#pragma once
#include <vector>
#include "core/device/kernel_options.h"
#include "core/tensor/tensor.h"

namespace bellows {

struct Precision {
  const char* name;  // "TF32"
  DType dtype;
  bool tf32 = false;
  // Relative rounding of an element when it is read, of a sum in the middle, of a result.
  double read = 0, sum = 0x1p-24, result = 0;
};
// FP64, FP32 and, where it has products of them, BF16 on a CPU; FP32, TF32, FP16 and BF16 on a GPU.
const std::vector<Precision>& precisions(Device device);
bool is_on(const Precision& precision, Device device);

// y = a b over and over: the same operands, random, in fresh memory of the device.
class Product {
 public:
  // a (.., M, K), b (K, N).
  Product(const Precision& precision, const Shape& a, const Shape& b, Device device);
  void run() const;  // returns before it is done where the device allows it
  double flop() const;

  const Precision precision;
  const Tensor a, b, y;
};

// The largest error of y in those rows, in units of the bound that rounding explains: above 1 the
// hardware or the library is wrong. Against a product in f64 on the host, a block of b at a time;
// rows counted over all of a's leading axes. Infinite where y is not finite.
double worst_error(const Product& product, const std::vector<int64_t>& rows);

}  // namespace bellows
