// The lesson of source S3 (docs/seeds.md): an MLP on quantized pixels. Pixels are mapped to levels
// by a loop over the levels or by one op (toggle vectorized_ops).
#include "models/layers/linear.h"
#include "models/module/build.h"

namespace bellows {

static ModulePtr levels_mlp(const NoOptions&, const ModelContext& context) {
  return Layers(context)
      .add("levels", "quantile_levels")
      .add("flatten", "flatten")
      .add<LinearLayer>("fc1", LinearLayerOptions{.out = 64})
      .add("relu1", "relu")
      .add<LinearLayer>("fc2", LinearLayerOptions{.out = context.classes})
      .take(context.output);
}

static const AddEntry<MakeModel> levels_mlp_entry("levels_mlp",
                                                  "an MLP on quantized pixels (a lesson)",
                                                  levels_mlp);

}  // namespace bellows
