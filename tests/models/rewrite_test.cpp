// Passes over a model's tree: the same values, with less memory or fewer parameters.
#include <gtest/gtest.h>
#include <cstring>
#include "autograd/backward.h"
#include "core/tensor/copy.h"
#include "core/tensor/rng.h"
#include "models/losses/loss.h"
#include "optim/optimizer.h"
#include "tests/models/build.h"
#include "tests/moved.h"

using namespace bellows;

namespace {

struct Trained {
  NamedTensors tensors;  // gradients and buffers
  int64_t saved_bytes;
  double loss;
};

// A small ResNet if `texts` name no model.
ModulePtr model_of(Texts texts) {
  if (!texts.contains("name")) texts.insert({{"name", "resnet18"}, {"width", "4"}});
  return build(texts, {.sample = {3, 16, 16}});
}

// One pass forward and backward.
Trained train(const Texts& texts) {
  const ModulePtr model = model_of(texts);
  const Tensor x({4, 3, 16, 16}, DType::f32);
  fill_normal(x, 0, 1, {.seed = 3, .purpose = Purpose::test});
  const Moved saved("mem.saved_bytes");
  const Tensor loss =
      criterion((*model)(x), tensor_of<int64_t>({1, 2, 3, 4}, {4}), {.fused = true});
  Trained result{{}, saved, loss.item()};
  backward(loss);
  for (const NamedTensor& p : model->parameters())
    result.tensors.push_back({p.name, contiguous(grad(p.tensor))});
  for (const NamedTensor& b : model->buffers()) result.tensors.push_back({b.name, clone(b.tensor)});
  return result;
}

void expect_same(const Trained& a, const Trained& b) {
  EXPECT_EQ(a.loss, b.loss);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const auto& [name, t] = a.tensors[i];
    const auto& [other, u] = b.tensors[i];
    EXPECT_EQ(name, other);
    EXPECT_EQ(std::memcmp(t.bytes(), u.bytes(), t.nbytes()), 0) << name;
  }
}

// A fusion may round otherwise. drop_conv_bias leaves tensors out.
void expect_close(const Trained& plain, const Trained& changed) {
  EXPECT_NEAR(plain.loss, changed.loss, 1e-4);
  for (const auto& [name, t] : changed.tensors) {
    const Tensor want = find(plain.tensors, name);
    ASSERT_EQ(t.shape(), want.shape()) << name;
    if (t.dtype() != DType::f32) continue;
    for (int64_t i = 0; i < t.numel(); ++i)
      ASSERT_NEAR(t.ptr<float>()[i], want.ptr<float>()[i], 1e-4) << name;
  }
}

}  // namespace

// Norms of both momenta after convolutions with a bias. With momentum 0.01 the running mean is
// still young after 24 updates.
static const Texts kWithBiases = layer_list(
    "{name: conv2d, out: 4}, relu, {name: conv2d, out: 4, stride: 3}, "
    "{name: batch_norm, momentum: 0.01}, relu, {name: conv2d, out: 4}, batch_norm, "
    "flatten, {name: linear, out: 10}");

// Outputs in evaluation after 0, 1, 4 and 24 updates.
static std::vector<Tensor> evaluations(const Texts& texts) {
  const ModulePtr model = model_of(texts);
  const NamedTensors parameters = model->parameters();
  Values rule{{"name", {"sgd"}}, {"momentum", {"0.5"}}, {"weight_decay", {"0"}}};
  Optimizer sgd(load(OptimizerOptions{}, rule), parameters, full({1}, 0.01, DType::f64));
  DeviceStepState state(Device::cpu);
  const Tensor x({4, 3, 16, 16}, DType::f32);
  std::vector<Tensor> outputs;
  for (uint64_t update = 0; update <= 24; ++update) {
    if (update == 0 || update == 1 || update == 4 || update == 24) {
      const NoGrad untracked;
      model->train(false);
      fill_normal(x, 0, 1, {.seed = 3, .purpose = Purpose::test});
      outputs.push_back(contiguous((*model)(x)));
      model->train(true);
    }
    fill_normal(x, 0, 1, {.seed = 100 + update, .purpose = Purpose::test});
    backward(criterion((*model)(x), tensor_of<int64_t>({1, 2, 3, 4}, {4}), {.fused = true}));
    sgd.step(state);
    sgd.zero_grad();
  }
  return outputs;
}

static std::vector<Texts> models() { return {{{"name", "lenet"}}, {{"name", "mlp"}}, {}}; }

static void with_each_rewrite(const Texts& model, const auto& check) {
  for (const Rewrite& rewrite : rewrites()) {
    SCOPED_TRACE(cat(model.contains("name") ? model.at("name") : "resnet18", " ", rewrite.name));
    Texts texts = model;
    texts[rewrite.name] = rewrite.max > 1 ? "1" : "true";
    check(texts);
  }
}

TEST(EveryRewrite, KeepsLossAndGradients) {
  for (const Texts& model : models()) {
    const Trained plain = train(model);
    with_each_rewrite(model, [&](const Texts& texts) { expect_close(plain, train(texts)); });
  }
}

TEST(EveryRewrite, KeepsEvaluationAfterUpdates) {
  std::vector<Texts> all = models();
  all.push_back(kWithBiases);
  for (const Texts& model : all) {
    const std::vector<Tensor> plain = evaluations(model);
    with_each_rewrite(model, [&](const Texts& texts) {
      const std::vector<Tensor> changed = evaluations(texts);
      for (size_t i = 0; i < plain.size(); ++i)
        for (int64_t k = 0; k < plain[i].numel(); ++k)
          ASSERT_NEAR(plain[i].ptr<float>()[k], changed[i].ptr<float>()[k], 1e-3) << i << " " << k;
    });
  }
}

// Blocks that are recomputed together save only their input. Three blocks have an input of (4, 4,
// 16, 16), two of (4, 8, 8, 8), two of (4, 16, 4, 4), and one of (4, 32, 2, 2). In pairs, only the
// first is saved: (4, 4, 16, 16) twice, (4, 8, 8, 8) and (4, 16, 4, 4). The stem, the head and the
// loss are outside of blocks.
TEST(Recompute, SavesOnlyTheInputsOfBlocks) {
  constexpr int64_t kStem = 4 * 4 * (3 * 256 + 4 * 256) + 2 * 4 * 4;  // image, x of bn1, statistics
  constexpr int64_t kHead = 1024;
  const int64_t plain = train({}).saved_bytes;
  const auto expect_inputs = [&](const char* every, int64_t numbers) {
    const int64_t bytes = train({{"recompute", every}}).saved_bytes, inputs = 4 * 4 * numbers;
    EXPECT_GE(bytes, inputs + kStem) << every;
    EXPECT_LE(bytes, inputs + kStem + kHead) << every;
    EXPECT_GT(2 * plain, 5 * bytes) << every;
  };
  expect_inputs("1", 3 * 1024 + 2 * 512 + 2 * 256 + 128);
  expect_inputs("2", 2 * 1024 + 512 + 256);
  expect_inputs("7", 2 * 1024 + 512 + 256);  // the stages are two blocks each
}

TEST(Recompute, WithoutAGradientRunsOnce) {
  const Moved replays("recompute.replays");
  const ModulePtr model = model_of({{"recompute", "1"}});
  const NoGrad untracked;
  (*model)(full({2, 3, 16, 16}, 1));
  EXPECT_EQ(replays, 0);
}

// A block does more than run its layers, so linear layers at its end are not left to the loss.
TEST(Recompute, RunsABlockAtTheEndOfTheModel) {
  const Texts plain = layer_list(
      "flatten, {name: linear, out: 10}, {name: residual, layers: [{name: linear, out: 10}]}");
  Texts changed = plain;
  changed["recompute"] = "1";
  const Moved replays("recompute.replays");
  expect_same(train(plain), train(changed));
  EXPECT_EQ(replays, 1);
}
