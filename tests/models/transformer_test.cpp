// Layers attention, transformer_block and positions, and linear on samples of (T, in).
#include <cmath>
#include <cstring>
#include "autograd/amp.h"
#include "autograd/backward.h"
#include "core/tensor/copy.h"
#include "core/tensor/rng.h"
#include "models/layers/attention.h"
#include "ops/elementwise.h"
#include "ops/norm/layer_norm.h"
#include "ops/reduce.h"
#include "tests/difference.h"
#include "tests/matchers.h"
#include "tests/models/build.h"
#include "tests/refusal.h"

using namespace bellows;

static Tensor random(const Shape& shape, uint64_t seed) {
  const Tensor t(shape, DType::f32);
  fill_normal(t, 0, 1, {.seed = seed});
  return t;
}

static Choice<MakeLayer> attending(const char* name, int64_t heads, bool causal) {
  Choice<MakeLayer> layer(name);
  layer.as<AttentionLayerOptions>() = {heads, causal};
  return layer;
}

static ModulePtr made(const Choice<MakeLayer>& choice, const Shape& sample,
                      const std::shared_ptr<const BatchLengths>& lengths = nullptr) {
  LayerContext context{
      .shape = sample, .seed = 1, .state = {}, .vectorized = false, .lengths = lengths};
  ModulePtr layer = choice.make(context);
  EXPECT_EQ(context.shape, sample);
  layer->name_all("");
  layer->initialize(1);
  return layer;
}

static double deviation(const Tensor& t) {
  double squares = 0;
  for (const float value : t.data<float>()) squares += double(value) * value;
  return std::sqrt(squares / double(t.numel()));
}

TEST(AttentionLayer, IsAttentionBetweenTwoLinearLayers) {
  for (const bool causal : {false, true}) {
    const ModulePtr layer = made(attending("attention", 2, causal), {5, 32});
    EXPECT_THAT(shapes(*layer), ElementsAre("qkv.weight[96,32]", "qkv.bias[96]",
                                            "out.weight[32,32]", "out.bias[32]"));
    const auto p = [&](const char* name) { return find(layer->parameters(), name); };
    EXPECT_NEAR(deviation(p("qkv.weight")), 0.02, 0.001);
    EXPECT_NEAR(deviation(p("out.weight")), 0.02, 0.002);
    EXPECT_EQ(deviation(p("qkv.bias")) + deviation(p("out.bias")), 0);
    const Tensor x = random({3, 5, 32}, 2);
    const Tensor qkv = linear(x, p("qkv.weight"), p("qkv.bias"));
    const Tensor y = linear(attention(qkv, {}, {2, causal}), p("out.weight"), p("out.bias"));
    EXPECT_EQ(difference(y, (*layer)(x)), 0);
  }
}

// Only a layer that is not causal reads the lengths, and it reads those of the current batch.
TEST(AttentionLayer, LeavesOutThePaddingOfTheBatch) {
  const auto lengths = std::make_shared<BatchLengths>();
  const Tensor x = random({2, 6, 8}, 2);
  for (const bool causal : {false, true}) {
    const ModulePtr layer = made(attending("attention", 2, causal), {6, 8}, lengths);
    lengths->value = {};
    const Tensor whole = (*layer)(x);
    lengths->value = tensor_of<int64_t>({6, 2}, {2});
    const Tensor padded = (*layer)(x);
    EXPECT_EQ(std::memcmp(whole.bytes(), padded.bytes(), whole.nbytes() / 2), 0);
    EXPECT_EQ(difference(whole, padded) == 0, causal);
  }
}

TEST(AttentionLayer, RefusesSamplesThatItsHeadsDoNotDivide) {
  EXPECT_EQ(refusal([] {
              made(attending("attention", 3, true), {5, 8});
            }),
            "attention: needs samples of (T, D), where D is a multiple of 3 heads, got [5,8]");
  EXPECT_EQ(refused([] { made(attending("attention", 1, true), {1, 28, 28}); }).exit, Exit::usage);
}

// Each parameter has a gradient; those of products are computed in 16 bits.
TEST(TransformerBlock, TrainsUnderAmpWithSumsInF32) {
  const ModulePtr block = made(attending("transformer_block", 2, true), {5, 8});
  const Tensor x = random({3, 5, 8}, 2), exact = (*block)(x);
  const Autocast low(DType::bf16);
  const Tensor y = (*block)(x);
  EXPECT_EQ(y.dtype(), DType::f32);
  EXPECT_LE(difference(exact, y), 1e-3);
  backward(mean(mul(y, y)));
  for (const NamedTensor& p : block->parameters())
    EXPECT_NE(deviation(grad(p.tensor)), 0) << p.name;
}

TEST(Positions, AddsARowOfItsTablePerPosition) {
  const ModulePtr layer = made(Choice<MakeLayer>("positions"), {6, 64});
  EXPECT_THAT(shapes(*layer), ElementsAre("weight[6,64]"));
  const Tensor table = layer->parameters()[0].tensor;
  EXPECT_NEAR(deviation(table), 0.02, 0.004);
  for (const int64_t T : {6, 4}) {  // batches may be shorter than the longest sample
    const Tensor x = random({2, T, 64}, 2), y = (*layer)(x);
    for (int64_t i = 0; i < y.numel(); ++i)
      EXPECT_EQ(y.data<float>()[i], x.data<float>()[i] + table.data<float>()[i % (T * 64)]);
  }
  backward(sum((*layer)(random({2, 4, 64}, 3))));
  for (int64_t i = 0; i < 6 * 64; ++i)
    EXPECT_EQ(grad(table).data<float>()[i], i < 4 * 64 ? 2 : 0) << i;
}

TEST(Positions, MayHaveALongerTableThanTheSamples) {
  const auto text = [](const char* longest) {
    return layer_list(
        cat("{name: positions, longest: ", longest, "}, flatten, {name: linear, out: 10}"));
  };
  EXPECT_EQ(build(text("9"), {.sample = {6, 4}})->parameters()[0].tensor.shape(), (Shape{9, 4}));
  EXPECT_EQ(refusal([&] {
              build(text("5"), {.sample = {6, 4}});
            }),
            "layer '0': positions: samples of [6,4] are longer than the table of 5");
}

// Sample 0 has three positions, sample 1 one. Padding does not count, whatever its values.
TEST(SequenceMean, IsTheMeanOfThePositionsThatAreNoPadding) {
  const auto lengths = std::make_shared<BatchLengths>();
  LayerContext context{
      .shape = {3, 2}, .seed = 1, .state = {}, .vectorized = false, .lengths = lengths};
  const ModulePtr layer = Choice<MakeLayer>("sequence_mean").make(context);
  EXPECT_EQ(context.shape, Shape{2});
  const Tensor x = tensor_of<float>({1, 2, 3, 4, 5, 9, 7, 8, 50, 60, 70, 80}, {2, 3, 2});
  lengths->value = tensor_of<int64_t>({3, 1}, {2});
  EXPECT_LT(difference(tensor_of<float>({3, 5, 7, 8}, {2, 2}), (*layer)(x)), 1e-6);
  lengths->value = {};
  EXPECT_GT(difference(tensor_of<float>({3, 5, 7, 8}, {2, 2}), (*layer)(x)), 1);
}

TEST(CnnTransformer, EndsInTheClassesAndHasAGradientForEachParameter) {
  const ModulePtr model = build({{"name", "cnn_transformer"}, {"width", "16"}, {"layers", "1"}},
                                {.sample = {3, 16, 16}});
  const Tensor y = (*model)(random({2, 3, 16, 16}, 3));
  EXPECT_EQ(y.shape(), (Shape{2, 10}));
  backward(sum(square(y)));
  for (const NamedTensor& p : model->parameters())
    EXPECT_GT(deviation(contiguous(grad(p.tensor))), 0) << p.name;
}
