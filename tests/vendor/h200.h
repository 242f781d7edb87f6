// Helpers for tests of cuDNN's graphs: an H200 given by its properties (tests/vendor/h200.json),
// and the networks whose layers are queried. Results are compared with tables of earlier ones. Some
// engines also query the driver, so a real H200 may offer more.
#pragma once
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <fstream>
#include <sstream>
#include "ops/vendor/cudnn.h"
#include "tests/place.h"

namespace bellows::cudnn {

inline const std::string kHere = source_dir() + "/tests/vendor/";

inline std::string text_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(kHere + file).rdbuf();
  return text.str();
}

inline Support ask(Graph&& graph, const Filter& filter) {
  static const std::string h200 = text_of("h200.json");
  return std::move(graph).support(filter, Search::quick, h200);
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
inline void expect_table(const std::string& file, const std::string& title,
                         const std::string& lines) {
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
  Conv2dOptions options;
  bool operator==(const Layer&) const = default;
};
using Layers = std::vector<Layer>;

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

inline Network lenet() {
  Network net{64, 1, 28};
  net.conv(6, 5, 1, 2);
  net.size /= 2;
  net.conv(16, 5, 1, 0);
  return net;
}

inline Network resnet(const std::vector<int>& blocks, bool bottleneck) {
  Network net{256, 3, 224};
  net.conv(64, 7, 2, 3);
  net.size /= 2;
  for (size_t stage = 0; stage < blocks.size(); ++stage)
    for (int block = 0; block < blocks[stage]; ++block)
      net.block(64 << stage, stage > 0 && block == 0 ? 2 : 1, bottleneck);
  return net;
}
inline Network resnet18() { return resnet({2, 2, 2, 2}, false); }
inline Network resnet50() { return resnet({3, 4, 6, 3}, true); }

}  // namespace bellows::cudnn
