#include "models/rewrite.h"
#include "autograd/recompute.h"
#include "models/fuse.h"
#include "models/layers/batch_norm.h"
#include "models/layers/conv2d.h"
#include "models/layers/residual.h"

namespace bellows {

// fn(module) for each module of the tree, the root last: what fn puts in is not visited.
template <class Fn> static void walk(Module& module, const Fn& fn) {
  for (const Child& child : module.children()) walk(*child.module, fn);
  fn(module);
}

namespace {
class Recomputed : public Module {
 public:
  explicit Recomputed(ModulePtr inner) : inner_(*inner) { add_child("", std::move(inner)); }
  const char* kind() const override { return "recompute"; }

 protected:
  Tensor forward(const Tensor& x) override {
    if (leaves_.empty())
      for (const NamedTensor& p : inner_.parameters()) leaves_.push_back(p.tensor);
    return recompute([this](const Tensor& in) { return inner_(in); }, x, leaves_);
  }

 private:
  Module& inner_;
  std::vector<Tensor> leaves_;
};
}  // namespace

std::vector<std::string> recompute_blocks(Module& root) {
  std::vector<std::string> report;
  walk(root, [&](Module& module) {
    for (Child& child : module.children()) {
      if (!is<ResidualBlock>(child)) continue;
      child.module = std::make_unique<Recomputed>(std::move(child.module));
      report.push_back("recomputed: residual block");
    }
  });
  return report;
}

std::vector<std::string> drop_conv_bias(Module& root) {
  std::vector<std::string> report;
  walk(root, [&](Module& module) {
    if (!dynamic_cast<Sequential*>(&module)) return;
    std::vector<Child>& list = module.children();
    for (size_t i = 0; i + 1 < list.size(); ++i) {
      auto* const conv = dynamic_cast<Conv2dLayer*>(list[i].module.get());
      if (!conv || !conv->bias().defined() || !is<BatchNormLayer>(list[i + 1])) continue;
      conv->drop_bias();
      report.push_back("without bias: " + list[i].name);
    }
  });
  return report;
}

}  // namespace bellows
