// Graphs of batch normalization for an H200 without having one, against a table of earlier results
// (tests/vendor/h200_batch_norm.txt).
#include "ops/vendor/cudnn_batch_norm.h"
#include <iomanip>
#include "tests/vendor/h200.h"

namespace bellows::cudnn {

static BatchNorm pass_of(const Norm& norm, DType dtype, const Filter& filter = {}) {
  return {norm.x, dtype, norm.relu, norm.residual, 1e-5, filter};
}
static Support forward(const BatchNorm& pass) {
  return ask(std::move(describe_forward(pass).graph), pass.filter);
}
static Support backward(const BatchNorm& pass) {
  return ask(std::move(describe_backward(pass).graph), pass.filter);
}

// One line per layer and precision: engines for both passes, and the workspace of the first of each
// in MiB.
static std::string line(const char* net, const Norm& norm, DType dtype) {
  const BatchNorm pass = pass_of(norm, dtype);
  const Support there = forward(pass), back = backward(pass);
  for (const Support& support : {there, back})
    EXPECT_GT(support.engines, 0) << net << " " << norm.x << " " << dtype << support.why_not;
  std::ostringstream line;
  line << std::left << std::setw(9) << net << std::setw(5) << name_of(dtype) << " x "
       << std::setw(18) << cat(norm.x) << std::setw(12)
       << (norm.residual ? "relu add"
           : norm.relu   ? "relu"
                         : "")
       << std::right << std::setw(4) << there.engines << std::setw(4) << back.engines << " "
       << std::setw(5) << (there.workspace_bytes >> 20) << std::setw(5)
       << (back.workspace_bytes >> 20) << "\n";
  return line.str();
}

TEST_F(CudnnOnH200, HasEnginesForEveryBatchNormOfTheResNets) {
  std::string table;
  const auto add = [&](const char* net, const Network& network) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (const Norm& norm : network.norms) table += line(net, norm, dtype);
  };
  add("resnet18", resnet18());
  add("resnet50", resnet50());
  expect_table("h200_batch_norm.txt", "engines forward, backward; MiB of scratch memory", table);
}

// The rule of takes_batch_norm(): channels that are no multiple of 16 bytes have no engine.
TEST_F(CudnnOnH200, NormalizesWhatItIsSaidToTakeAndNothingElse) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const int64_t channels : {6, 8, 12}) {
      const Shape shape{32, channels, 14, 14};
      const BatchNorm pass = pass_of({shape, true, true}, dtype);
      const bool takes = takes_batch_norm(Tensor(shape, dtype, Device::cpu, kNHWC));
      EXPECT_EQ(forward(pass).engines > 0, takes) << dtype << " C " << channels;
      EXPECT_EQ(backward(pass).engines > 0, takes) << dtype << " C " << channels;
    }
}

TEST_F(CudnnOnH200, NormalizesWithTheSameBitsEveryTime) {
  const BatchNorm pass =
      pass_of({{256, 64, 56, 56}, true, true}, DType::f16, {.deterministic = true});
  EXPECT_GT(forward(pass).engines, 0);
  EXPECT_GT(backward(pass).engines, 0);
}

}  // namespace bellows::cudnn
