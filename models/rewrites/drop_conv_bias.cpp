// Removes the bias of each convolution followed by a batch_norm: subtracting the mean cancels the
// bias, and its gradient is 0.
#include "models/layers/batch_norm.h"
#include "models/layers/conv2d.h"
#include "models/module/rewrite.h"
#include "models/rewrites/normed_conv.h"

namespace bellows {

// Calls fn(conv, norm) for each convolution directly followed by a batch_norm.
template <class Fn> static void each_normed_conv(Module& root, const Fn& fn) {
  each_sequential(root, [&](Sequential& sequential) {
    const std::vector<Child>& list = sequential.children();
    for (size_t i = 0; i + 1 < list.size(); ++i)
      if (is<Conv2dLayer>(list[i]) && is<BatchNormLayer>(list[i + 1])) fn(list[i], list[i + 1]);
  });
}

std::vector<NormedConv> find_normed_convs(Module& root) {
  std::vector<NormedConv> found;
  each_normed_conv(root, [&](const Child& conv, const Child& norm) {
    auto& layer = dynamic_cast<Conv2dLayer&>(*conv.module);
    found.push_back({layer.weight(), dynamic_cast<BatchNormLayer&>(*norm.module).running().mean,
                     layer.bias().defined()});
  });
  return found;
}

static std::vector<std::string> drop(Module& root, int64_t) {
  std::vector<std::string> report;
  each_normed_conv(root, [&](const Child& child, const Child&) {
    auto& conv = dynamic_cast<Conv2dLayer&>(*child.module);
    if (!conv.bias().defined()) return;
    conv.drop_bias();
    report.push_back("without bias: " + child.name);
  });
  return report;
}

static const AddRewrite drop_conv_bias_rewrite(
    {.name = "drop_conv_bias",
     .help = "no bias in convolutions followed by a batch_norm",
     .stage = Rewrite::edit,
     .apply = drop});

}  // namespace bellows
