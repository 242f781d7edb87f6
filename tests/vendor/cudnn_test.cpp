// What cuDNN can do on an H200, asked without one: the graphs that the product builds, held against
// the properties of that GPU (h200.json) and a table of what has been found (h200_conv2d.txt). Some
// engines ask the driver for more than the properties say, so a real one may offer more.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <fstream>
#include <iomanip>
#include <sstream>
#include "ops/vendor/cudnn_conv2d.h"

namespace bellows::cudnn {

namespace {

const std::string kHere = BELLOWS_SOURCE_DIR "/tests/vendor/";

std::string text_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(kHere + file).rdbuf();
  return text.str();
}

struct Layer {
  Shape x, w;
  Conv2dOptions options;
  bool operator==(const Layer&) const = default;
};
using Layers = std::vector<Layer>;

// What a network adds, image by image; the same layer twice counts once.
struct Network {
  int64_t batch, channels, size;  // of what comes next
  Layers layers = {};

  void conv(int64_t out, int64_t kernel, int64_t stride, int64_t padding) {
    const Layer layer{{batch, channels, size, size},
                      {out, channels, kernel, kernel},
                      {.stride = stride, .padding = padding}};
    if (!std::ranges::count(layers, layer)) layers.push_back(layer);
    channels = out;
    size = (size + 2 * padding - kernel) / stride + 1;
  }
  // A residual block: its way through and its shortcut, where that is a convolution.
  void block(int64_t width, int64_t stride, bool bottleneck) {
    Network shortcut = *this;
    const int64_t in = channels, out = bottleneck ? 4 * width : width;
    if (bottleneck) {
      conv(width, 1, 1, 0);
      conv(width, 3, stride, 1);
      conv(out, 1, 1, 0);
    } else {
      conv(width, 3, stride, 1);
      conv(width, 3, 1, 1);
    }
    if (stride == 1 && in == out) return;
    shortcut.layers = layers;
    shortcut.conv(out, 1, stride, 0);
    layers = shortcut.layers;
  }
};

Layers lenet() {
  Network net{64, 1, 28};
  net.conv(6, 5, 1, 2);
  net.size /= 2;
  net.conv(16, 5, 1, 0);
  return net.layers;
}

Layers resnet(const std::vector<int>& blocks, bool bottleneck) {
  Network net{256, 3, 224};
  net.conv(64, 7, 2, 3);
  net.size /= 2;
  for (size_t stage = 0; stage < blocks.size(); ++stage)
    for (int block = 0; block < blocks[stage]; ++block)
      net.block(64 << stage, stage > 0 && block == 0 ? 2 : 1, bottleneck);
  return net.layers;
}

struct Precision {
  const char* name;
  DType dtype;
  bool tf32;
  MemoryFormat format;
};
const Precision precisions[] = {{"f32", DType::f32, false, kNCHW},
                                {"tf32", DType::f32, true, kNHWC},
                                {"bf16", DType::bf16, false, kNHWC},
                                {"f16", DType::f16, false, kNHWC}};

Support ask(Graph&& graph, const Filter& filter) {
  static const std::string h200 = text_of("h200.json");
  return std::move(graph).support(filter, Search::quick, h200);
}
Support ask(const Convolution& convolution) {
  return ask(std::move(describe(convolution).graph), convolution.filter);
}

}  // namespace

class CudnnOnH200 : public testing::Test {
 protected:
  void SetUp() override {
    if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL)) {
      ASSERT_TRUE(dlopen(CUDA_DRIVER_STUB, RTLD_NOW | RTLD_GLOBAL)) << dlerror();
    }
    if (!available()) GTEST_SKIP() << "no cuDNN on this machine";
  }
};

// One line a layer and precision: engines for y, dx and dw, and the MiB that the first of each
// wants.
static std::string line(const char* net, const Layer& layer, const Precision& precision) {
  std::ostringstream counts, scratch;
  for (const Half half : {Half::forward, Half::backward_x, Half::backward_w}) {
    const Support support = ask({half,
                                 layer.x,
                                 layer.w,
                                 precision.format,
                                 precision.dtype,
                                 false,
                                 layer.options,
                                 {.tf32 = precision.tf32}});
    EXPECT_GT(support.engines, 0) << net << " x " << layer.x << " w " << layer.w << " in "
                                  << precision.name << ": " << support.why_not;
    counts << std::setw(4) << support.engines;
    scratch << std::setw(5) << (support.workspace_bytes >> 20);
  }
  std::ostringstream line;
  line << std::left << std::setw(9) << net << std::setw(5) << precision.name << " x "
       << std::setw(16) << cat(layer.x) << " w " << std::setw(16) << cat(layer.w) << " stride "
       << layer.options.stride << counts.str() << " " << scratch.str() << "\n";
  return line.str();
}

TEST_F(CudnnOnH200, HasEnginesForEveryConvolutionOfLeNetAndTheResNets) {
  std::string table = cat("cuDNN ", version(), ": engines for y, dx, dw; MiB of scratch memory\n");
  const auto add = [&](const char* net, const Layers& layers) {
    for (const Precision& precision : precisions)
      for (const Layer& layer : layers) table += line(net, layer, precision);
  };
  add("lenet", lenet());
  add("resnet18", resnet({2, 2, 2, 2}, false));
  add("resnet50", resnet({3, 4, 6, 3}, true));
  if (std::getenv("BELLOWS_WRITE_TABLES")) std::ofstream(kHere + "h200_conv2d.txt") << table;
  const std::string known = text_of("h200_conv2d.txt");
  if (known.substr(0, known.find(':')) != cat("cuDNN ", version()))
    GTEST_SKIP() << "the table is of another version; BELLOWS_WRITE_TABLES=1 writes it anew";
  EXPECT_EQ(table, known);
}

// Without channels_last, 16-bit images stay in NCHW: slower, but there.
TEST_F(CudnnOnH200, HasEnginesFor16BitImagesInNchw) {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const Layer& layer : resnet({2, 2, 2, 2}, false))
      for (const Half half : {Half::forward, Half::backward_x, Half::backward_w}) {
        const Support support =
            ask({half, layer.x, layer.w, kNCHW, dtype, false, layer.options, {}});
        EXPECT_GT(support.engines, 0)
            << dtype << " x " << layer.x << " w " << layer.w << ": " << support.why_not;
      }
}

// The bias goes into the graph of the convolution, whatever the precision and the format.
TEST_F(CudnnOnH200, AddsABiasInTheSameGraph) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const MemoryFormat& format : {kNCHW, kNHWC})
      for (const bool tf32 : {false, true}) {
        const Support support = ask({Half::forward,
                                     {64, 6, 14, 14},
                                     {16, 6, 5, 5},
                                     format,
                                     dtype,
                                     true,
                                     {},
                                     {.tf32 = tf32}});
        EXPECT_GT(support.engines, 0) << dtype << " " << format.name << ": " << support.why_not;
      }
}

TEST_F(CudnnOnH200, FusesReluBehindTheBias) {
  const Shape x{256, 64, 56, 56}, w{64, 64, 3, 3};
  Graph graph(DType::bf16);
  const Id y =
      graph.relu(graph.add(graph.conv2d(graph.input({x, kNHWC, DType::bf16}),
                                        graph.input({w, kNHWC, DType::bf16}), {.padding = 1}),
                           graph.input({{1, 64, 1, 1}, kNHWC, DType::bf16})));
  graph.output(y, {x, kNHWC, DType::bf16});
  EXPECT_GT(ask(std::move(graph), {}).engines, 0);
}

// Why dw of 16-bit images is of 16 bits, too. Turns red when cuDNN learns it: then use it.
TEST_F(CudnnOnH200, HasNoF32GradientOf16BitWeights) {
  const Shape x{256, 64, 56, 56}, w{64, 64, 3, 3};
  for (const DType dtype : {DType::bf16, DType::f16}) {
    Graph graph(dtype);
    const Id dw = graph.conv2d_backward_w(graph.input({x, kNHWC, dtype}),
                                          graph.input({x, kNHWC, dtype}), {.padding = 1});
    graph.output(dw, {w, kNHWC, DType::f32});
    const Support support = ask(std::move(graph), {});
    EXPECT_EQ(support.engines, 0) << dtype;
    EXPECT_NE(support.why_not, "");
  }
}

// Each part of a filter bars some engines, and never all of them. Those of f32 that add with
// atomics are not deterministic; 16-bit types have none.
TEST_F(CudnnOnH200, FiltersEngines) {
  const auto engines = [](DType dtype, const Filter& filter) {
    return ask({Half::backward_w,
                {256, 64, 56, 56},
                {64, 64, 3, 3},
                kNHWC,
                dtype,
                false,
                {.padding = 1},
                filter});
  };
  EXPECT_GT(engines(DType::f32, {.deterministic = true}).engines, 0);
  EXPECT_LT(engines(DType::f32, {.deterministic = true}).engines, engines(DType::f32, {}).engines);
  EXPECT_LT(engines(DType::f32, {}).engines, engines(DType::f32, {.tf32 = true}).engines);
  const Support small = engines(DType::bf16, {.workspace_bytes = 0});
  EXPECT_EQ(small.workspace_bytes, 0);
  EXPECT_GT(small.engines, 0);
  EXPECT_LT(small.engines, engines(DType::bf16, {}).engines);
}

}  // namespace bellows::cudnn
