// Gradients in 16 bits: an update has the bits of one from their values in f32.
#include "core/base/trace.h"
#include "tests/optim/trained.h"

using namespace bellows;

namespace {

void expect_bits_of_casts(OptimizerOptions options, bool fused, Device device, int updates) {
  options.clip_norm = 3;
  for (const DType low : {DType::bf16, DType::f16}) {
    const auto narrow = [&](const Tensor& g) { return cast(g, low); };
    const auto widened = [&](const Tensor& g) { return cast(cast(g, low), DType::f32); };
    expect_same_bits(train(options, fused, updates, DType::f32, device, widened),
                     train(options, fused, updates, DType::f32, device, narrow),
                     cat(options.rule.name(), " ", low, fused ? " fused" : " plain"));
  }
}

}  // namespace

TEST(LowGrads, AreReadByEveryRule) {
  for (const OptimizerOptions& options : every_variant())
    for (const bool fused : {false, true}) expect_bits_of_casts(options, fused, Device::cpu, 4);
}

TEST(LowGradsOnDevice, AreReadByEveryRule) {
  if (device_count(Device::cuda) == 0) GTEST_SKIP() << why_no_device(Device::cuda);
  for (const std::string& name : Choice<UpdateRule()>::names())
    for (const bool fused : {false, true}) {
      const OptimizerOptions options = variants_of(name).back();
      expect_bits_of_casts(options, fused, Device::cuda, 2);
    }
}

// A fused update reads them as they are. Others need a cast of each.
TEST(LowGrads, AreCastOnlyWhereARuleCannotReadThem) {
  const trace::Counter& read = trace::counter("optim.low_grads");
  const auto read_by = [&](const std::string& rule, bool fused) {
    const int64_t before = read.value();
    train(rule_options(rule), fused, 1, DType::f32, Device::cpu,
          [](const Tensor& g) { return cast(g, DType::bf16); });
    return read.value() - before;
  };
  EXPECT_EQ(read_by("sgd", true), std::ssize(kOddShapes));
  EXPECT_EQ(read_by("adamw", true), std::ssize(kOddShapes));
  EXPECT_EQ(read_by("sgd", false), 0);
}
