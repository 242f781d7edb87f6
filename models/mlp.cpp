// Multilayer perceptron. Without hidden layers it is a linear classifier.
#include "core/config/visitor.h"
#include "models/layers/dropout.h"
#include "models/layers/linear.h"
#include "models/module/build.h"

namespace bellows {

namespace {
struct MlpOptions {
  std::vector<int64_t> hidden = {256, 128};
  Choice<MakeLayer> activation{"relu"};
  double dropout = 0;
};
void visit(Visitor& v, MlpOptions& o) {
  v.list("hidden", o.hidden, "sizes of the hidden layers", {.min = 1, .max = 1 << 24});
  v.choice("activation", o.activation, "between them");
  v("dropout", o.dropout, "after each activation", {.min = 0, .max = 0.99});
}
}  // namespace

static ModulePtr mlp(const MlpOptions& options, const ModelContext& context) {
  Layers layers(context);
  layers.add("flatten", "flatten");
  for (size_t i = 0; i < options.hidden.size(); ++i) {
    const std::string n = std::to_string(i + 1);
    layers.add<LinearLayer>("fc" + n, LinearLayerOptions{.out = options.hidden[i]});
    layers.add("act" + n, options.activation);
    if (options.dropout > 0)
      layers.add<DropoutLayer>("dropout" + n, DropoutLayerOptions{.p = options.dropout});
  }
  const std::string last = "fc" + std::to_string(options.hidden.size() + 1);
  return layers.add<LinearLayer>(last, LinearLayerOptions{.out = context.classes})
      .take(context.output);
}

static const AddEntry<MakeModel> mlp_entry("mlp", "linear layers with activations between them",
                                           mlp);

}  // namespace bellows
