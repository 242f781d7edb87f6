// cuDNN's support for an H200 without having one: graphs of the product's convolutions for a device
// given by its properties (h200.json), against a table of earlier results (h200_conv2d.txt). Some
// engines also query the driver, so a real H200 may offer more.
#include "ops/vendor/cudnn.h"
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <fstream>
#include <iomanip>
#include <sstream>
#include "tests/place.h"

namespace bellows::cudnn {

namespace {

const std::string kHere = source_dir() + "/tests/vendor/";

std::string text_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(kHere + file).rdbuf();
  return text.str();
}

class CudnnOnH200 : public testing::Test {
 protected:
  void SetUp() override {
    if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL)) {
      ASSERT_TRUE(dlopen(CUDA_DRIVER_STUB, RTLD_NOW | RTLD_GLOBAL)) << dlerror();
    }
    if (!available()) GTEST_SKIP() << "no cuDNN on this machine";
  }
};

// Expects the file to hold `title` and the lines. BELLOWS_WRITE_TABLES=1 rewrites it.
void expect_table(const std::string& file, const std::string& title, const std::string& lines) {
  const std::string table = cat("cuDNN ", version(), ": ", title, "\n", lines);
  if (std::getenv("BELLOWS_WRITE_TABLES")) std::ofstream(kHere + file) << table;
  const std::string known = text_of(file);
  ASSERT_FALSE(known.empty()) << kHere + file << " is not there";
  if (known.substr(0, known.find(':')) != cat("cuDNN ", version()))
    GTEST_SKIP() << "the table is of another version; BELLOWS_WRITE_TABLES=1 writes it anew";
  EXPECT_EQ(table, known);
}

// ---- networks; equal layers count once

struct Layer {
  Shape x, w;
  Conv2dOptions options = {};
  bool operator==(const Layer&) const = default;
};
using Layers = std::vector<Layer>;

Support ask(Half half, const Layer& layer, const MemoryFormat& format, DType dtype,
            const Filter& filter = {}, bool bias = false) {
  static const std::string h200 = text_of("h200.json");
  return support({half, layer.x, layer.w, format, dtype, bias, layer.options, filter}, h200);
}

// Collects the layers of a network.
struct Network {
  int64_t batch, channels, size;  // of the next layer's input
  Layers layers = {};

  void conv(int64_t out, int64_t kernel, int64_t stride, int64_t padding) {
    const Layer layer{{batch, channels, size, size},
                      {out, channels, kernel, kernel},
                      {.stride = stride, .padding = padding}};
    if (!std::ranges::count(layers, layer)) layers.push_back(layer);
    channels = out;
    size = (size + 2 * padding - kernel) / stride + 1;
  }
  // A residual block: its body, and its shortcut if that is a convolution.
  void block(int64_t width, int64_t stride, bool bottleneck) {
    const int64_t in = channels, side = size, out = bottleneck ? 4 * width : width;
    if (bottleneck) {
      conv(width, 1, 1, 0);
      conv(width, 3, stride, 1);
      conv(out, 1, 1, 0);
    } else {
      conv(width, 3, stride, 1);
      conv(width, 3, 1, 1);
    }
    if (stride == 1 && in == out) return;
    channels = in, size = side;
    conv(out, 1, stride, 0);
  }
};

Network lenet() {
  Network net{64, 1, 28};
  net.conv(6, 5, 1, 2);
  net.size /= 2;
  net.conv(16, 5, 1, 0);
  return net;
}

Network resnet(const std::vector<int>& blocks, bool bottleneck) {
  Network net{256, 3, 224};
  net.conv(64, 7, 2, 3);
  net.size /= 2;
  for (size_t stage = 0; stage < blocks.size(); ++stage)
    for (int block = 0; block < blocks[stage]; ++block)
      net.block(64 << stage, stage > 0 && block == 0 ? 2 : 1, bottleneck);
  return net;
}
Network resnet18() { return resnet({2, 2, 2, 2}, false); }
Network resnet50() { return resnet({3, 4, 6, 3}, true); }

constexpr Half kHalves[] = {Half::forward, Half::backward_x, Half::backward_w};

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

}  // namespace

// One line per network and precision: the fewest engines of any layer for y, dx and dw, and the
// largest workspace of a first engine for each, in MiB.
static std::string line(const char* net, const Layers& layers, const Precision& precision) {
  std::ostringstream engines, scratch;
  for (const Half half : kHalves) {
    Support worst{.engines = INT64_MAX};
    for (const Layer& layer : layers) {
      const Support support =
          ask(half, layer, precision.format, precision.dtype, {.tf32 = precision.tf32});
      EXPECT_GT(support.engines, 0) << net << " x " << layer.x << " w " << layer.w << " in "
                                    << precision.name << ": " << support.why_not;
      worst.engines = std::min(worst.engines, support.engines);
      worst.workspace_bytes = std::max(worst.workspace_bytes, support.workspace_bytes);
    }
    engines << std::setw(4) << worst.engines;
    scratch << std::setw(5) << (worst.workspace_bytes >> 20);
  }
  return cat(std::left, std::setw(9), net, std::setw(5), precision.name, engines.str(), " ",
             scratch.str(), "\n");
}

TEST_F(CudnnOnH200, HasEnginesForEveryConvolutionOfLeNetAndTheResNets) {
  std::string table;
  for (const auto& [name, net] :
       {std::pair("lenet", lenet()), {"resnet18", resnet18()}, {"resnet50", resnet50()}})
    for (const Precision& precision : precisions) table += line(name, net.layers, precision);
  expect_table("h200_conv2d.txt", "fewest engines for y, dx, dw; most MiB of scratch memory",
               table);
}

// Without channels_last, 16-bit images stay in NCHW: slower, but supported.
TEST_F(CudnnOnH200, HasEnginesFor16BitImagesInNchw) {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const Layer& layer : resnet18().layers)
      for (const Half half : kHalves) {
        const Support support = ask(half, layer, kNCHW, dtype);
        EXPECT_GT(support.engines, 0)
            << dtype << " x " << layer.x << " w " << layer.w << ": " << support.why_not;
      }
}

// The bias is part of the convolution's graph, in every precision and format.
TEST_F(CudnnOnH200, AddsABiasInTheSameGraph) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const MemoryFormat& format : {kNCHW, kNHWC})
      for (const bool tf32 : {false, true}) {
        const Support support = ask(Half::forward, {{64, 6, 14, 14}, {16, 6, 5, 5}}, format, dtype,
                                    {.tf32 = tf32}, true);
        EXPECT_GT(support.engines, 0) << dtype << " " << format.name << ": " << support.why_not;
      }
}

// Each field of Filter excludes some engines, and never all. Engines of f32 that add with atomics
// are not deterministic; 16-bit dtypes have none.
TEST_F(CudnnOnH200, FiltersEngines) {
  const auto engines = [](DType dtype, const Filter& filter) {
    const Layer layer{{256, 64, 56, 56}, {64, 64, 3, 3}, {.padding = 1}};
    return ask(Half::backward_w, layer, kNHWC, dtype, filter);
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
