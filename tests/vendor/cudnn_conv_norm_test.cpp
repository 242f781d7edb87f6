// cuDNN's engines for conv_norm on an H200, which need not be present, against a table of earlier
// results (tests/vendor/h200_conv_norm.txt).
#include "ops/vendor/cudnn_conv_norm.h"
#include <iomanip>
#include "tests/vendor/h200.h"

namespace bellows::cudnn {

static Support ask(Half half, const Layer& layer, bool norm, const Filter& filter = {}) {
  return ask(std::move(describe({half, layer.x, layer.w, norm, layer.options, filter}).graph),
             filter);
}

// One line per convolution: engines for each pass that it needs, and the workspace of the first of
// each in MiB. A convolution without a norm before it has the usual backward.
static std::string line(const char* net, const Layer& layer, bool norm) {
  std::vector<Half> halves{Half::forward};
  if (norm) halves.insert(halves.end(), {Half::backward_x, Half::backward_w});
  std::ostringstream counts, scratch;
  for (const Half half : halves) {
    const Support support = ask(half, layer, norm);
    EXPECT_GT(support.engines, 0) << net << " x " << layer.x << " w " << layer.w << ": "
                                  << support.why_not;
    counts << std::setw(4) << support.engines;
    scratch << std::setw(5) << (support.workspace_bytes >> 20);
  }
  std::ostringstream line;
  line << std::left << std::setw(9) << net << std::setw(5) << (norm ? "norm" : "") << " x "
       << std::setw(16) << cat(layer.x) << " w " << std::setw(16) << cat(layer.w) << " stride "
       << layer.options.stride << counts.str() << " " << scratch.str() << "\n";
  return line.str();
}

TEST_F(CudnnOnH200, HasEnginesForEveryResidualBlockOfTheResNets) {
  std::string table;
  const auto add = [&](const char* name, const Network& net) {
    for (const Layer& layer : net.layers)
      if (layer.x[1] % 8 == 0) table += line(name, layer, false);
    for (const Layer& layer : net.behind_norm) table += line(name, layer, true);
  };
  add("resnet18", resnet18());
  add("resnet50", resnet50());
  expect_table("h200_conv_norm.txt", "engines for y, dx, dw in f16; MiB of scratch memory", table);
}

TEST_F(CudnnOnH200, NormalizesOnTheWayInWithTheSameBitsEveryTime) {
  const Layer layer{{256, 64, 56, 56}, {64, 64, 3, 3}, {.padding = 1}};
  for (const Half half : {Half::forward, Half::backward_x, Half::backward_w})
    EXPECT_GT(ask(half, layer, true, {.deterministic = true}).engines, 0);
}

}  // namespace bellows::cudnn
