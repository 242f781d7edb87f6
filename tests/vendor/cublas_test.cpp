// cuBLASLt can describe products without a GPU, but not choose an algorithm.
#include "ops/vendor/cublas.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "tests/refusal.h"

using namespace bellows;
using cublas::Epilogue;

// Device tensor at a fake address, never dereferenced.
static Tensor matrix(int64_t rows, int64_t columns, DType dtype) {
  const Shape shape{1, rows, columns};
  void* const address = reinterpret_cast<void*>(uintptr_t{1} << 20);
  return Tensor(Ref(new Storage(address, shape.numel() * size_of(dtype), Device::cuda, nullptr)),
                shape, dtype);
}
static Tensor turned(const Tensor& t) {
  return t.view({1, t.dim(2), t.dim(1)}, {t.numel(), 1, t.dim(2)}, 0);
}

TEST(Cublas, TakesTheDescriptionOfEveryProduct) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const Epilogue epilogue : {Epilogue::none, Epilogue::relu, Epilogue::add_row,
                                    Epilogue::add_row_relu, Epilogue::sum_a})
      for (const bool tf32 : {false, true}) {
        SCOPED_TRACE(cat(dtype, " epilogue ", int(epilogue), tf32 ? " tf32" : ""));
        const Kernels use({.vendor = true, .tf32 = tf32});
        const Tensor y = matrix(64, 10, dtype), a = matrix(64, 84, dtype);
        const Tensor b = turned(matrix(10, 84, dtype));
        const std::string refused = refusal([&] {
          const Proposals plans =
              cublas::propose({y, a, b, Into::add, epilogue, y.bytes()}, Search::quick);
          EXPECT_FALSE(plans.empty()) << "no algorithm";
        });
        if (device_count(Device::cuda) == 0)
          EXPECT_THAT(refused, testing::HasSubstr("cublasLtCreate"));
        else
          EXPECT_EQ(refused, "no error");
      }
}

// A tuned choice of another version is not reused.
TEST(Cublas, NamesTheVersionThatAChoiceIsValidFor) {
  EXPECT_THAT(cublas::loaded(), testing::ContainsRegex("^cuBLASLt [0-9]+$"));
}

// The stand-in of tests/cuda_host computes with the layout of an operand, but any alignment is
// right there.
TEST(Cublas, SeesTheAlignmentOfAnOperand) {
  const Tensor t = matrix(5, 7, DType::f32);
  EXPECT_EQ(cublas::Operand(t).alignment, 256u);
  EXPECT_EQ(cublas::Operand(t.view({1, 5, 6}, {35, 7, 1}, 1)).alignment, 4u);
}
