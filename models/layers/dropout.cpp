#include "models/layers/dropout.h"
#include "core/config/visitor.h"

namespace bellows {

static void visit(Visitor& v, DropoutLayerOptions& o) {
  v("p", o.p, "share of the elements set to 0", {.min = 0, .max = 0.99});
}

static const AddEntry<MakeLayer> dropout_entry("dropout", "zeros at random while training",
                                               make_layer<DropoutLayer, DropoutLayerOptions>);

}  // namespace bellows
