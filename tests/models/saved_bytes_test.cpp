// Bytes that a training step of LeNet saves for backward: counted, and equal to the sum computed
// here.
#include <gtest/gtest.h>
#include "autograd/backward.h"
#include "core/tensor/foreach.h"
#include "core/tensor/rng.h"
#include "models/losses/loss.h"
#include "tests/models/build.h"
#include "tests/moved.h"

using namespace bellows;

static constexpr int64_t N = 32;

struct StepBytes {
  int64_t counted;  // mem.saved_bytes of one forward
  int64_t held;     // growth of the memory in use during the forward
};

static StepBytes saved_by_a_step(bool fused_layers, const LossOptions& loss_options) {
  const ModulePtr model =
      build({{"name", "lenet"}, {"fuse.conv_act_pool", fused_layers ? "true" : "false"}});
  const Tensor x({N, 1, 28, 28}, DType::f32), labels({N}, DType::i64);
  fill_normal(x, 0, 1, {.seed = 1});
  fill(labels, 3);
  backward(criterion((*model)(x), labels, loss_options));  // warm-up: layers allocate workspaces
  const Moved counted("mem.saved_bytes");
  const int64_t held = allocator_stats(Device::cpu).allocated;
  const Tensor loss = criterion((*model)(x), labels, loss_options);
  const StepBytes bytes{counted, allocator_stats(Device::cpu).allocated - held};
  backward(loss);
  return bytes;
}

// Bytes per sample, of f32 unless marked: x; per convolution the output of relu, the winners of
// pool (bytes) and the output of pool; the flattened input of fc1, and the outputs of relu3 and
// relu4, which are also the inputs of fc2 and fc3. Fused layers keep no output of a convolution or
// relu.
static constexpr int64_t kWinners = 6 * 14 * 14 + 16 * 5 * 5;
static constexpr int64_t kFused = 4 * (28 * 28 + 6 * 14 * 14 + 400 + 120 + 84) + kWinners;
static constexpr int64_t kPlain = kFused + 4 * (6 * 28 * 28 + 16 * 10 * 10);
// log_softmax saves its output, gather the labels. The fused loss saves logits, labels and two
// values per sample, and a divisor in f64.
static constexpr int64_t kLoss = 4 * 10 + 8, kFusedLoss = kLoss + 2 * 4;

TEST(SavedBytes, OfLeNetAreTheComputedOnes) {
  EXPECT_EQ(saved_by_a_step(false, {}).counted, N * (kPlain + kLoss));
  EXPECT_EQ(saved_by_a_step(false, {.fused = true}).counted, N * (kPlain + kFusedLoss) + 8);
  EXPECT_EQ(saved_by_a_step(true, {.fused = true}).counted, N * (kFused + kFusedLoss) + 8);
}

// The sum could repeat an error of the counter, so this compares with the allocator. x and the
// labels exist before the forward, the loss itself only after it; blocks are rounded up.
TEST(SavedBytes, AreTheMemoryThatAForwardLeavesInUse) {
  for (const bool fused : {false, true}) {
    const StepBytes bytes = saved_by_a_step(fused, {.fused = fused});
    const int64_t there_before = N * (28 * 28 * 4 + 8);
    EXPECT_GE(bytes.held, bytes.counted - there_before) << fused;
    EXPECT_LE(bytes.held, (bytes.counted - there_before) * 5 / 4 + 64) << fused;
  }
}
