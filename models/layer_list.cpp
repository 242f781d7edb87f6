// Model described in YAML as a list of layers, named by position as in torch.nn.Sequential:
//   model: {name: layers, layers: [{name: conv2d, out: 8, kernel: 5}, relu, max_pool2d, ...]}
#include "core/config/visitor.h"
#include "models/module/build.h"

namespace bellows {

namespace {
struct LayerListOptions {
  std::vector<Choice<MakeLayer>> layers;
};
void visit(Visitor& v, LayerListOptions& o) {
  v.choices("layers", o.layers, "one after the other").fixed(kOtherModel);
}
}  // namespace

static ModulePtr layer_list(const LayerListOptions& options, const ModelContext& context) {
  CHECK(!options.layers.empty(), "model.layers is empty; write  layers: [flatten, {name: linear, ",
        "out: ", context.classes, "}]");
  Layers layers(context);
  for (size_t i = 0; i < options.layers.size(); ++i)
    layers.add(std::to_string(i), options.layers[i]);
  return layers.take(context.output);
}

static const AddEntry<MakeModel> layer_list_entry("layers", "a list of layers, described in YAML",
                                                  layer_list);

}  // namespace bellows
