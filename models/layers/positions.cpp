#include "autograd/amp.h"
#include "core/config/visitor.h"
#include "models/module/module.h"
#include "ops/elementwise.h"
#include "ops/shape.h"

namespace bellows {

namespace {
struct PositionsOptions {
  int64_t longest = 0;
};
void visit(Visitor& v, PositionsOptions& o) {
  v("longest", o.longest, "rows of the table; 0: the length of the data set's samples",
    {.min = 0, .max = 1 << 24});
}

// Adds row t of a trained table to position t: (N, T, D) to (N, T, D). weight (longest, D), as
// torch.nn.Embedding's.
class PositionsLayer : public Module {
 public:
  PositionsLayer(const PositionsOptions& o, LayerContext& context) {
    const Shape& shape = context.shape;
    CHECK(shape.rank() == 2, "positions: needs samples of (T, D), got ", shape);
    const int64_t rows = o.longest ? o.longest : shape[0];
    CHECK(shape[0] <= rows, "positions: samples of ", shape, " are longer than the table of ",
          rows);
    weight_ = add_parameter("weight", {rows, shape[1]}, {Init::normal, 0.02}, context.device);
  }
  const char* kind() const override { return "positions"; }

 protected:
  Tensor forward(const Tensor& x) override {
    return bellows::add(amp::full(x), slice(weight_, 0, 0, x.dim(1)));
  }

 private:
  Tensor weight_;
};
}  // namespace

static const AddEntry<MakeLayer> positions_entry("positions", "adds a trained row per position",
                                                 make_layer<PositionsLayer, PositionsOptions>);

}  // namespace bellows
