#include "core/config/visitor.h"
#include "models/module/module.h"
#include "ops/bucketize.h"

namespace bellows {

// A lesson: maps values to levels, by a loop over the levels or by one op over the whole tensor.
namespace {
struct LevelsOptions {
  int64_t levels = 8;
  double low = -1, high = 3;  // first and last boundary; the others are evenly spaced
};
void visit(Visitor& v, LevelsOptions& o) {
  v("levels", o.levels, "how many", {.min = 2, .max = 256});
  v("low", o.low, "first boundary");
  v("high", o.high, "last boundary");
}

class LevelsLayer : public Module {
 public:
  LevelsLayer(const LevelsOptions& o, const LayerContext& context)
      : impl_(context.vectorized ? Impl::fused : Impl::composed) {
    CHECK(o.low < o.high, "quantile_levels: low ", o.low, " is not below high ", o.high);
    std::vector<float> boundaries(o.levels - 1);
    const double step = o.levels > 2 ? (o.high - o.low) / double(o.levels - 2) : 0;
    for (size_t i = 0; i < boundaries.size(); ++i) boundaries[i] = float(o.low + step * double(i));
    boundaries_ = tensor_of(boundaries, {o.levels - 1}, context.device);
  }
  const char* kind() const override { return "quantile_levels"; }

 protected:
  Tensor forward(const Tensor& x) override { return quantile_levels(x, boundaries_, impl_); }

 private:
  Impl impl_;
  Tensor boundaries_;
};
}  // namespace

static const AddEntry<MakeLayer> quantile_levels_entry("quantile_levels",
                                                       "values to levels (a lesson)",
                                                       make_layer<LevelsLayer, LevelsOptions>);

}  // namespace bellows
