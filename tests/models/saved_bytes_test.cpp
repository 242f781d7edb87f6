// Bytes that a training step of LeNet saves for backward: counted, and equal to the sum computed
// here.
#include <gtest/gtest.h>
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "core/tensor/foreach.h"
#include "core/tensor/rng.h"
#include "models/losses/loss.h"
#include "tests/models/build.h"
#include "tests/moved.h"

using namespace bellows;

static constexpr int64_t N = 32, kFloat = 4, kLong = 8, kByte = 1;

struct Bytes {
  int64_t counted;  // mem.saved_bytes of one forward
  int64_t held;     // growth of the memory in use during the forward
};

static Bytes saved_by_a_step(bool fused_layers, const LossOptions& loss_options) {
  const ModulePtr model =
      build({{"name", "lenet"}, {"fuse.conv_act_pool", fused_layers ? "true" : "false"}});
  const Tensor x({N, 1, 28, 28}, DType::f32), labels({N}, DType::i64);
  fill_normal(x, 0, 1, {.seed = 1});
  fill(labels, 3);
  const trace::Counter& counter = trace::counter("mem.saved_bytes");
  backward(criterion((*model)(x), labels, loss_options));  // warm-up: layers allocate workspaces
  const int64_t before = counter.value(), held = allocator_stats(Device::cpu).allocated;
  const Tensor loss = criterion((*model)(x), labels, loss_options);
  const Bytes bytes{counter.value() - before, allocator_stats(Device::cpu).allocated - held};
  backward(loss);
  return bytes;
}

// After the convolutions: fc1 saves the flattened (N, 400). relu3 and relu4 save their outputs,
// which are also the inputs that fc2 and fc3 save, so each counts once.
static constexpr int64_t kLinear = N * (400 + 120 + 84) * kFloat;

// x for conv1; the output of relu and the winners of pool; the output of pool for conv2; and again.
static constexpr int64_t kPlain = N * (1 * 28 * 28) * kFloat + N * (6 * 28 * 28) * kFloat +
                                  N * (6 * 14 * 14) * kByte + N * (6 * 14 * 14) * kFloat +
                                  N * (16 * 10 * 10) * kFloat + N * (16 * 5 * 5) * kByte;

// x, a byte for each window, and the input of the second layer. No output of a convolution or relu.
static constexpr int64_t kFusedLayers = N * (1 * 28 * 28) * kFloat + N * (6 * 14 * 14) * kByte +
                                        N * (6 * 14 * 14) * kFloat + N * (16 * 5 * 5) * kByte;

// log_softmax saves its output, gather the labels; both are (N, ...).
static constexpr int64_t kComposedLoss = N * 10 * kFloat + N * kLong;
// logits, labels, two values per sample, and the divisor in f64.
static constexpr int64_t kFusedLoss = N * 10 * kFloat + N * kLong + 2 * N * kFloat + kLong;

TEST(SavedBytes, OfLeNetAreTheComputedOnes) {
  EXPECT_EQ(saved_by_a_step(false, {}).counted, kPlain + kLinear + kComposedLoss);
  EXPECT_EQ(saved_by_a_step(false, {.fused = true}).counted, kPlain + kLinear + kFusedLoss);
  EXPECT_EQ(saved_by_a_step(true, {.fused = true}).counted, kFusedLayers + kLinear + kFusedLoss);
}

// The sum could repeat an error of the counter, so this compares with the allocator. x and the
// labels exist before the forward, the loss itself only after it; blocks are rounded up.
TEST(SavedBytes, AreTheMemoryThatAForwardLeavesInUse) {
  for (const bool fused : {false, true}) {
    const Bytes bytes = saved_by_a_step(fused, {.fused = fused});
    const int64_t there_before = N * 28 * 28 * kFloat + N * kLong;
    EXPECT_GE(bytes.held, bytes.counted - there_before) << fused;
    EXPECT_LE(bytes.held, (bytes.counted - there_before) * 5 / 4 + 64) << fused;
  }
}

// ---- a residual block (N, 8, 6, 6) of two convolutions

static int64_t saved_by_a_fused_block() {
  const ModulePtr model = build({{"name", "layers"},
                                 {"layers.0.name", "residual"},
                                 {"layers.0.layers.0.name", "conv2d"},
                                 {"layers.0.layers.0.out", "8"},
                                 {"layers.0.layers.0.padding", "1"},
                                 {"layers.0.layers.0.bias", "false"},
                                 {"layers.0.layers.1.name", "batch_norm"},
                                 {"layers.0.layers.2.name", "relu"},
                                 {"layers.0.layers.3.name", "conv2d"},
                                 {"layers.0.layers.3.out", "8"},
                                 {"layers.0.layers.3.padding", "1"},
                                 {"layers.0.layers.3.bias", "false"},
                                 {"layers.0.layers.4.name", "batch_norm"},
                                 {"layers.1.name", "flatten"},
                                 {"layers.2.name", "linear"},
                                 {"layers.2.out", "10"},
                                 {"fuse.bn_act", "true"},
                                 {"fuse.bn_add_act", "true"}},
                                {.sample = {8, 6, 6}});
  const Tensor x({N, 8, 6, 6}, DType::f32);
  fill_normal(x, 0, 1, {.seed = 1});
  const Moved counter("mem.saved_bytes");
  const Tensor y = (*model)(x);
  return counter;
}

// The block's input, the outputs of both convolutions and of the first norm, and the mask bits and
// statistics of both norms; then the input of the linear layer. Planes of 36 elements have 5 bytes
// of bits.
TEST(SavedBytes, OfABlockWithFusedNormsAreFourImagesAndTheMasks) {
  constexpr int64_t kImage = N * 8 * 36 * kFloat, kBits = N * 8 * 5, kStatistics = 2 * 8 * kFloat;
  constexpr int64_t kBlock = 4 * kImage + 2 * kBits + 2 * kStatistics, kHead = kImage;
  EXPECT_EQ(saved_by_a_fused_block(), kBlock + kHead);
}
