#include "models/layers/residual.h"
#include "autograd/amp.h"
#include "core/config/visitor.h"
#include "ops/elementwise.h"

namespace bellows {

Tensor Shortcut::value(const Tensor& y) {
  const Tensor added = Sequential::forward(leave());
  return is_low(y.dtype()) ? amp::to_low(added) : amp::full(added);
}
Tensor Shortcut::forward(const Tensor& y) { return bellows::add(y, value(y)); }

ModulePtr residual_block(LayerContext& context, const AddLayers& layers, const AddLayers& shortcut,
                         const char* shortcut_name, const AddLayers& after) {
  auto made = std::make_unique<Shortcut>();
  Layers block(context, std::make_unique<ResidualBlock>(*made)), around(context, std::move(made));
  layers(block);
  shortcut(around);
  block.add(shortcut_name, [&](LayerContext& here) {
    CHECK(around.shape() == here.shape, "the layers produce samples of ", here.shape,
          ", the shortcut ", around.shape(), "; the shapes must be equal");
    return around.take();
  });
  after(block);
  context.shape = block.shape();
  return block.take();
}

// ---- in YAML

namespace {
struct ResidualOptions {
  std::vector<Choice<MakeLayer>> layers, shortcut, after = {Choice<MakeLayer>("relu")};
};
void visit(Visitor& v, ResidualOptions& o) {
  v.choices("layers", o.layers, "one after the other").fixed(kOtherModel);
  v.choices("shortcut", o.shortcut, "of the block's input, added to that; empty: the input itself")
      .fixed(kOtherModel);
  v.choices("after", o.after, "of the sum").fixed(kOtherModel);
}
}  // namespace

// Layers are named by position: 0, 1, ...; those of the shortcut are shortcut.0, shortcut.1, ...
static ModulePtr make_residual(const ResidualOptions& options, LayerContext& context) {
  const auto numbered = [](const std::vector<Choice<MakeLayer>>& list, size_t first) {
    return [&list, first](Layers& layers) {
      for (size_t i = 0; i < list.size(); ++i) layers.add(std::to_string(first + i), list[i]);
    };
  };
  return residual_block(context, numbered(options.layers, 0), numbered(options.shortcut, 0),
                        "shortcut", numbered(options.after, options.layers.size()));
}
static const AddEntry<MakeLayer> residual_entry("residual", "layers, and a shortcut around them",
                                                make_residual);

}  // namespace bellows
