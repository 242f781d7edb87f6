// Names, shapes and initial values as in PyTorch; models from YAML; errors that name a layer.
#include <cmath>
#include "autograd/amp.h"
#include "core/tensor/foreach.h"
#include "ops/elementwise.h"
#include "tests/matchers.h"
#include "tests/models/build.h"
#include "tests/refusal.h"

using namespace bellows;

template <class... Fs> static void expect_layers(TypeList<Fs...>) {
  const Tensor x = full({2, 3}, 0.75);
  const auto expect_layer = [&](const char* name, const Tensor& y) {
    LayerContext context{.shape = {3}, .seed = 1, .state = {}, .vectorized = false};
    const ModulePtr layer = Choice<MakeLayer>(name).make(context);
    EXPECT_EQ(layer->kind(), std::string(name));
    EXPECT_EQ((*layer)(x).data<float>()[5], y.data<float>()[5]) << name;
    EXPECT_EQ(context.shape, (Shape{3})) << name;
  };
  (expect_layer(Fs::name, unary<Fs>(x)), ...);
}
TEST(Layers, HaveEveryUnaryOp) { expect_layers(functors::UnaryOps()); }

TEST(Mlp, HasTheHiddenLayersThatItsOptionsName) {
  const ModulePtr mlp = build({{"name", "mlp"}, {"hidden.0", "32"}});
  EXPECT_THAT(shapes(*mlp), ElementsAre("fc1.weight[32,784]", "fc1.bias[32]", "fc2.weight[10,32]",
                                        "fc2.bias[10]"));
  EXPECT_THAT(shapes(*build({{"name", "mlp"}, {"hidden", "[]"}})),
              ElementsAre("fc1.weight[10,784]", "fc1.bias[10]"));
}

// ---- initial values: uniform in +-1 / sqrt(fan_in), as in torch.nn.Linear and Conv2d

TEST(Init, StaysInItsBoundsAndFillsThem) {
  const ModulePtr lenet = build({{"name", "lenet"}});
  const std::map<std::string, double> fan_in{
      {"conv1", 25}, {"conv2", 150}, {"fc1", 400}, {"fc2", 120}, {"fc3", 84}};
  for (const NamedTensor& p : lenet->parameters()) {
    const double bound = 1 / std::sqrt(fan_in.at(p.name.substr(0, p.name.find('.'))));
    const auto values = p.tensor.data<float>();
    const auto n = double(values.size());
    double mean = 0, variance = 0;
    for (const float value : values) {
      EXPECT_LE(std::abs(value), bound * 1.000001) << p.name;
      mean += value / n;
      variance += double(value) * value / n;
    }
    // Five standard errors of a uniform distribution's mean and second moment.
    EXPECT_NEAR(mean, 0, 5 * bound / std::sqrt(3 * n)) << p.name;
    EXPECT_NEAR(variance, bound * bound / 3, 5 * bound * bound * std::sqrt(4 / 45.0 / n)) << p.name;
    EXPECT_GT(*std::ranges::max_element(values), bound * (1 - 6 / n)) << p.name;
  }
}

static std::vector<float> values(const ModulePtr& model, const std::string& name) {
  const auto data = find(model->parameters(), name).data<float>();
  return {data.begin(), data.end()};
}

TEST(Init, IsAFunctionOfSeedAndName) {
  const ModulePtr a = build({{"name", "lenet"}}), b = build({{"name", "lenet"}});
  const ModulePtr other = build({{"name", "lenet"}}, {.seed = 2});
  EXPECT_EQ(values(a, "fc2.weight"), values(b, "fc2.weight"));
  EXPECT_NE(values(a, "fc2.weight"), values(other, "fc2.weight"));
  const ModulePtr equal =
      build({{"name", "mlp"}, {"hidden.0", "16"}, {"hidden.1", "16"}, {"hidden.2", "16"}});
  EXPECT_NE(values(equal, "fc2.weight"), values(equal, "fc3.weight")) << "of one shape";
  // A new layer does not change the values of another one that keeps its name and shape.
  const ModulePtr deeper = build({{"name", "mlp"}, {"hidden.0", "32"}, {"hidden.1", "16"}});
  const ModulePtr flatter = build({{"name", "mlp"}, {"hidden.0", "32"}});
  EXPECT_EQ(values(deeper, "fc1.weight"), values(flatter, "fc1.weight"));
}

// ---- layers from YAML

static const Texts kLayers = layer_list(
    "{name: conv2d, out: 4, kernel: 3}, {name: relu}, {name: max_pool2d}, "
    "{name: dropout, p: 0.25}, {name: flatten}, {name: linear, out: 10}");

static Texts with(Texts texts, const std::string& key, const std::string& text) {
  texts[key] = text;
  return texts;
}

TEST(LayerList, IsBuiltInOrderAndNamedByPosition) {
  const ModulePtr model = build(kLayers);
  std::vector<std::string> kinds;
  for (const Child& child : model->children())
    kinds.push_back(child.name + " " + child.module->kind());
  EXPECT_THAT(kinds, ElementsAre("0 conv2d", "1 relu", "2 max_pool2d", "3 dropout", "4 flatten",
                                 "5 linear"));
  EXPECT_THAT(shapes(*model),
              ElementsAre("0.weight[4,1,3,3]", "0.bias[4]", "5.weight[10,676]", "5.bias[10]"));
  EXPECT_EQ((*model)(zeros({2, 1, 28, 28})).shape(), (Shape{2, 10}));
}

TEST(LayerList, MistakesNameTheLayer) {
  EXPECT_THAT(refusal([] { build(with(kLayers, "layers.4.name", "relu")); }),
              StartsWith("layer '5': linear: needs flat samples, or (T, in), got [4,13,13]"));
  EXPECT_EQ(refusal([] { build(with(kLayers, "layers.0.kernel", "30")); }),
            "layer '0': conv2d: a kernel of 30 does not fit samples of [1,28,28]");
  auto vast = with(kLayers, "layers.0.kernel", "65536");  // reported before any allocation
  EXPECT_EQ(refusal([&] { build(with(vast, "layers.0.out", "16777216")); }),
            "layer '0': conv2d: a kernel of 65536 does not fit samples of [1,28,28]");
  EXPECT_EQ(refusal([] {
              build(with(kLayers, "layers.2.kernel", "12"), {.sample = {1, 28, 8}});
            }),
            "layer '2': max_pool2d: a window of 12 does not fit samples of [4,26,6]");
  EXPECT_EQ(refusal([] { build(with(kLayers, "layers.5.out", "7")); }),
            "the model ends in samples of [7], the data set's targets need [10]");
  EXPECT_THAT(refusal([] {
                build({{"name", "layers"}});
              }),
              StartsWith("model.layers is empty; write  layers: [flatten"));
  EXPECT_THAT(refusal([] { build(with(kLayers, "layers.1.name", "rleu")); }), HasSubstr("relu"));
  EXPECT_EQ(refusal([] {
              build({{"name", "lenet"}}, {.sample = {1, 8, 8}});
            }),
            "layer 'conv2': conv2d: a kernel of 5 does not fit samples of [6,4,4]");
}

TEST(Residual, TakesAnInputOfAnotherPrecisionThanItsLayers) {
  const Texts net = layer_list(
      "{name: residual, layers: [{name: conv2d, out: 3, padding: 1}]}, flatten, "
      "{name: linear, out: 10}");
  for (const char* const fused : {"false", "true"}) {
    const ModulePtr model = build(with(net, "fuse.add_act", fused), {.sample = {3, 8, 8}});
    const Autocast precision(DType::bf16);
    EXPECT_EQ((*model)(full({2, 3, 8, 8}, 0.5)).dtype(), DType::bf16);
  }
}

TEST(Dropout, RunsInTrainingOnly) {
  const ModulePtr model = build(kLayers);
  const Tensor x = full({2, 1, 28, 28}, 1);
  const auto run = [&] {
    const Tensor y = (*model)(x);
    return std::vector<float>(y.data<float>().begin(), y.data<float>().end());
  };
  const std::vector<float> training = run();
  model->train(false);
  EXPECT_FALSE(model->children()[3].module->training());
  EXPECT_NE(run(), training);
  model->train(true);
  EXPECT_EQ(run(), training) << "the mask is a function of seed, place and step";
}

// ---- layers of sequences

TEST(EmbeddingLayer, IsTorchsWithASmallerStart) {
  const ModulePtr model = build(layer_list("{name: embedding, entries: 100, width: 64}, flatten, "
                                           "{name: linear, out: 10}"),
                                {.sample = {3}});
  EXPECT_THAT(shapes(*model), ElementsAre("0.weight[100,64]", "2.weight[10,192]", "2.bias[10]"));
  double squares = 0;
  for (const float value : values(model, "0.weight")) squares += double(value) * value / 6400;
  EXPECT_NEAR(std::sqrt(squares), 0.02, 0.001);  // five standard errors
  const Tensor y = (*model->children()[0].module)(tensor_of<int64_t>({7, 99, 0}, {1, 3}));
  EXPECT_EQ(y.shape(), (Shape{1, 3, 64}));
  EXPECT_EQ(y.data<float>()[64], values(model, "0.weight")[99 * 64]);
}

TEST(EmbeddingLayer, MistakesNameTheLayer) {
  const Texts texts = layer_list("{name: embedding}");
  EXPECT_EQ(refusal([&] { build(texts, {.sample = {3}}); }),
            "layer '0': embedding: the size of the vocabulary is missing; add  entries: N");
  EXPECT_EQ(refusal([&] { build(with(texts, "layers.0.entries", "5")); }),
            "layer '0': embedding: needs samples of (T) indices, got [1,28,28]");
  EXPECT_THAT(refusal([&] { build(with(texts, "layers.0.entries", "0")); }),
              HasSubstr("whole number from 1"));
}

// ---- pointwise chains as layers

static const Texts kChain = layer_list(
    "{name: pointwise, expression: 'relu(x) * (1 + scale) + shift', "
    "parameters: [scale, shift]}, flatten, {name: linear, out: 10}");

TEST(PointwiseLayer, TrainsANumberAChannelForEachOfItsParameters) {
  const ModulePtr model = build(kChain, {.sample = {3, 4, 5}});
  EXPECT_THAT(shapes(*model),
              ElementsAre("0.scale[3,1,1]", "0.shift[3,1,1]", "2.weight[10,60]", "2.bias[10]"));
  EXPECT_THAT(values(model, "0.scale"), ElementsAre(0, 0, 0));
  Module& chain = *model->children()[0].module;
  const Tensor x = tensor_of<float>({-1, 2, 3}, {1, 3, 1, 1});
  fill(find(model->parameters(), "0.shift"), 5);
  EXPECT_THAT(chain(x).data<float>(), ElementsAre(5, 7, 8));
}

TEST(PointwiseLayer, MistakesNameTheLayerAndTheNearestName) {
  EXPECT_EQ(refusal([] { build(with(kChain, "layers.0.parameters.1", "shfit")); }),
            "layer '0': pointwise: there is no input 'shift', the nearest one is 'shfit', at "
            "column 25 of  relu(x) * (1 + scale) + shift");
  EXPECT_THAT(refusal([] { build(with(kChain, "layers.0.expression", "relu(x)")); }),
              StartsWith("layer '0': pointwise: the input 'scale' is not used"));
}

TEST(PointwiseLayer, IsFusedWhenAskedAndKeepsItsNames) {
  std::vector<std::string> report;
  const ModulePtr model =
      build(with(kChain, "fuse.pointwise", "true"), {.sample = {3, 4, 5}, .fused = &report});
  EXPECT_THAT(report, ElementsAre("pointwise: 0"));
  EXPECT_EQ(shapes(*model), shapes(*build(kChain, {.sample = {3, 4, 5}})));
}

// ---- the fuse pass

static Texts fused(const Texts& texts) { return with(texts, "fuse.conv_act_pool", "true"); }

TEST(Fuse, FindsBothBlocksOfLeNetIfAskedAndKeepsNamesAndValues) {
  std::vector<std::string> report;
  const ModulePtr plain = build({{"name", "lenet"}}, {.fused = &report});
  EXPECT_THAT(report, ElementsAre());
  const ModulePtr model = build(fused({{"name", "lenet"}}), {.fused = &report});
  EXPECT_THAT(report, ElementsAre("conv_act_pool: conv1 + relu1 + pool1",
                                  "conv_act_pool: conv2 + relu2 + pool2"));
  EXPECT_EQ(shapes(*model), shapes(*plain));
  for (const NamedTensor& p : plain->parameters())
    EXPECT_EQ(values(model, p.name), values(plain, p.name)) << p.name;
}

// Each of these differs in one option from what the kernel supports.
TEST(Fuse, LeavesAloneWhatItsKernelCannotDo) {
  std::vector<std::string> report;
  build(fused(kLayers), {.fused = &report});
  EXPECT_THAT(report, ElementsAre("conv_act_pool: 0 + 1 + 2"));
  for (const auto& [key, text] : {std::pair{"layers.0.stride", "2"},
                                  {"layers.0.bias", "false"},
                                  {"layers.1.name", "gelu"},
                                  {"layers.2.name", "avg_pool2d"},
                                  {"layers.2.kernel", "3"},
                                  {"layers.2.stride", "1"},
                                  {"layers.2.padding", "1"}}) {
    build(fused(with(kLayers, key, text)), {.fused = &report});
    EXPECT_THAT(report, ElementsAre()) << key << ": " << text;
  }
}
