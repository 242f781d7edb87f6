// Removes the bias of each convolution followed by a batch_norm: subtracting the mean cancels the
// bias, and its gradient is 0. The running mean starts at minus the bias instead of 0, because the
// statistics of evaluation would cancel the bias only after many updates.
#include "models/module/rewrite.h"
#include "models/rewrites/normed_conv.h"

namespace bellows {

std::vector<NormedConv> find_normed_convs(Module& root) {
  std::vector<NormedConv> found;
  each_sequential(root, [&](const std::string& path, Sequential& sequential) {
    const std::vector<Child>& list = sequential.children();
    for (size_t i = 1; i < list.size(); ++i) {
      auto* const layer = dynamic_cast<Conv2dLayer*>(list[i - 1].module.get());
      auto* const after = dynamic_cast<BatchNormLayer*>(list[i].module.get());
      if (layer && after)
        found.push_back({path_below(path, list[i - 1].name), path_below(path, list[i].name), layer,
                         after, layer->bias().defined()});
    }
  });
  return found;
}

static std::vector<std::string> drop(Module& root, int64_t) {
  std::vector<std::string> report;
  for (const NormedConv& c : find_normed_convs(root)) {
    if (!c.has_bias) continue;
    c.layer->drop_bias(c.after->running().mean);
    report.push_back("without bias: " + c.conv.substr(c.conv.rfind('.') + 1));
  }
  return report;
}

static const AddRewrite drop_conv_bias_rewrite(
    {.name = "drop_conv_bias",
     .help = "no bias in convolutions followed by a batch_norm",
     .drops_parameters = true,
     .stage = Rewrite::edit,
     .apply = drop});

}  // namespace bellows
