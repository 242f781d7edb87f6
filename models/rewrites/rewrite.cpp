#include "models/rewrites/rewrite.h"
#include "autograd/recompute.h"
#include "models/layers/batch_norm.h"
#include "models/layers/conv2d.h"
#include "models/layers/residual.h"
#include "models/module/fuse.h"

namespace bellows {

// Calls fn(module) for each module of the tree, children first. Modules that fn inserts are not
// visited.
template <class Fn> static void walk(Module& module, const Fn& fn) {
  for (const Child& child : module.children()) walk(*child.module, fn);
  fn(module);
}

namespace {
class Recomputed : public Sequential {
 public:
  explicit Recomputed(std::span<Child> blocks) {
    for (Child& block : blocks) add(block.name, std::move(block.module));
  }
  const char* kind() const override { return "recompute"; }

 protected:
  Tensor forward(const Tensor& x) override {
    if (leaves_.empty())
      for (const NamedTensor& p : parameters()) leaves_.push_back(p.tensor);
    return recompute([this](const Tensor& in) { return Sequential::forward(in); }, x, leaves_);
  }

 private:
  std::vector<Tensor> leaves_;
};
}  // namespace

std::vector<std::string> recompute_blocks(Module& root, int64_t every) {
  std::vector<std::string> report;
  walk(root, [&](Module& module) {
    if (!dynamic_cast<Sequential*>(&module)) return;
    std::vector<Child>& list = module.children();
    for (auto at = list.begin(); at != list.end(); ++at) {
      auto end = at;
      while (end != list.end() && end - at < every && is<ResidualBlock>(*end)) ++end;
      if (end == at) continue;
      *at = {"", std::make_unique<Recomputed>(std::span(at, end))};
      report.push_back(cat("recomputed: residual blocks, ", end - at, " together"));
      list.erase(at + 1, end);
    }
  });
  return report;
}

// Calls fn(conv, norm) for each convolution directly followed by a batch_norm.
template <class Fn> static void each_normed_conv(Module& root, const Fn& fn) {
  walk(root, [&](Module& module) {
    if (!dynamic_cast<Sequential*>(&module)) return;
    std::vector<Child>& list = module.children();
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

std::vector<std::string> drop_conv_bias(Module& root) {
  std::vector<std::string> report;
  each_normed_conv(root, [&](const Child& child, const Child&) {
    auto& conv = dynamic_cast<Conv2dLayer&>(*child.module);
    if (!conv.bias().defined()) return;
    conv.drop_bias();
    report.push_back("without bias: " + child.name);
  });
  return report;
}

}  // namespace bellows
