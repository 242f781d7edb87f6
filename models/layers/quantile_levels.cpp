#include "core/config/visitor.h"
#include "models/module/function_layer.h"
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
}  // namespace

static ModulePtr make_levels(const LevelsOptions& o, LayerContext& context) {
  CHECK(o.low < o.high, "quantile_levels: low ", o.low, " is not below high ", o.high);
  std::vector<float> values(o.levels - 1);
  const double step = o.levels > 2 ? (o.high - o.low) / double(o.levels - 2) : 0;
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(o.low + step * double(i));
  const Tensor boundaries = tensor_of(values, {o.levels - 1}, context.device);
  const Impl impl = context.vectorized ? Impl::fused : Impl::composed;
  return std::make_unique<FunctionLayer>(
      "quantile_levels", [=](const Tensor& x) { return quantile_levels(x, boundaries, impl); });
}
static const AddEntry<MakeLayer> quantile_levels_entry("quantile_levels",
                                                       "values to levels (a lesson)", make_levels);

}  // namespace bellows
