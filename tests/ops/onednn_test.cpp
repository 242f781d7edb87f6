// Dtypes that we compute with oneDNN on this CPU, against oneDNN's own answers.
#include "ops/vendor/onednn.h"
#include <gtest/gtest.h>
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "ops/conv/conv2d.h"
#include "tests/moved.h"
#include "tests/refusal.h"

using namespace bellows;
using dnnl::memory;

// ---- oneDNN's answers

// Returns the implementations that oneDNN offers, "" where it refuses: for a convolution, for the
// gradient of its images, and for a product whose first matrix is transposed.
static std::vector<std::string> implementations(DType dtype) {
  using Tag = memory::format_tag;
  const auto direct = dnnl::algorithm::convolution_direct;
  const auto image = onednn::desc({2, 16, 8, 8}, Tag::nhwc, dtype);
  const auto weights = onednn::desc({16, 16, 3, 3}, Tag::any, dtype);
  const memory::dims one{1, 1};
  std::vector<std::string> names;
  const auto name_of = [&](const auto& p) { names.push_back(p ? p.impl_info_str() : ""); };
  const dnnl::convolution_forward::primitive_desc forward(
      onednn::engine(), dnnl::prop_kind::forward_training, direct, image, weights, image, one, one,
      one, {}, true);
  name_of(forward);
  if (forward)
    name_of(dnnl::convolution_backward_data::primitive_desc(
        onednn::engine(), direct, image, weights, image, one, one, one, forward, {}, true));
  const auto matrix = [&](Tag tag) { return onednn::desc({64, 64}, tag, dtype); };
  name_of(dnnl::matmul::primitive_desc(onednn::engine(), matrix(Tag::ba), matrix(Tag::ab),
                                       matrix(Tag::ab), {}, true));
  return names;
}

TEST(OneDnn, ComputesInF16WhereverItHasMoreThanItsReference) {
  const std::vector<std::string> names = implementations(DType::f16);
  const auto is_fast = [](const std::string& name) { return !name.empty() && name != "ref:any"; };
  EXPECT_EQ(onednn::computes(DType::f16), std::ranges::all_of(names, is_fast))
      << testing::PrintToString(names);
}

// ---- our kernels

// Number of runs of oneDNN's convolutions of 1x1.
static int64_t runs_of_1x1() {
  int64_t sum = 0;
  for (const auto& [name, count] : trace::counters())
    if (name.starts_with("onednn.") && name.find("1x1") != name.npos) sum += count;
  return sum;
}

// oneDNN would write past its scratchpad, which only shows if that memory has another owner.
TEST(OneDnn, IsNotAskedForAGradientThatItWritesOutOfBounds) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    if (!onednn::computes(dtype)) continue;
    for (const int64_t channels : {8, 16}) {
      const Tensor x = contiguous(full({1, channels, 56, 56}, 1, dtype), kNHWC);
      const Tensor dy = contiguous(full({1, 16, 28, 28}, 0.5, dtype), kNHWC);
      const Tensor dw = empty({16, channels, 1, 1}, x);
      const Kernels use({.vendor = true});
      Slot slot;
      const int64_t before = runs_of_1x1();
      kernels::conv2d_backward_w(dy, x, dw, Tensor(), {.stride = 2}, slot);
      EXPECT_EQ(runs_of_1x1() > before, channels == 16) << dtype << ", " << channels << " channels";
      const Tensor got = cast(dw, DType::f32);
      for (int64_t i = 0; i < got.numel(); ++i) EXPECT_EQ(got.data<float>()[i], 28 * 28 * 0.5);
    }
  }
}

// ---- errors

TEST(OneDnn, ErrorsAreOurs) {
  const auto fails_with = [](dnnl_status_t status) {
    return refused([&] { onednn::checked([&] { throw dnnl::error(status, "could not"); }); });
  };
  EXPECT_EQ(fails_with(dnnl_out_of_memory).exit, Exit::memory);
  EXPECT_EQ(fails_with(dnnl_out_of_memory).message,
            "out of cpu memory: oneDNN: could not; try a smaller data.batch_size");
  EXPECT_EQ(fails_with(dnnl_unimplemented).exit, Exit::internal);
  EXPECT_EQ(fails_with(dnnl_unimplemented).message, "onednn: could not: unimplemented");
}

// oneDNN reads its environment once, so this runs in another process.
TEST(OneDnnDeathTest, LeavesWhatItMayNotUseToThePlainKernels) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
  const auto works = [] {
    const Kernels use({.vendor = true});
    const Moved calls("kernel.vendor_calls");
    Slot slot;
    kernels::conv2d(full({2, 8, 6, 6}, 1, DType::bf16), full({8, 8, 3, 3}, 1, DType::bf16), {}, {},
                    slot);
    return !onednn::computes(DType::bf16) && calls == 0;
  };
  EXPECT_EXIT(std::exit(works() ? 0 : 1), testing::ExitedWithCode(0), "");
  unsetenv("ONEDNN_MAX_CPU_ISA");
}
