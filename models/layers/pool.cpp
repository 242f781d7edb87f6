#include "models/layers/pool.h"
#include "core/config/visitor.h"
#include "models/module/function_layer.h"

namespace bellows {

static void visit(Visitor& v, PoolLayerOptions& o) {
  v("kernel", o.kernel, "height and width of the window", {.min = 1, .max = 65536})
      .also({"kernel_size"});
  v("stride", o.stride, "step between windows; 0: the kernel", {.min = 0, .max = 65536});
  v("padding", o.padding, "on each side", {.min = 0, .max = 65536});
}

PoolLayer::PoolLayer(const char* kind, Function function, const PoolLayerOptions& o,
                     LayerContext& context)
    : kind_(kind),
      function_(function),
      options_{.kernel = o.kernel, .stride = o.stride ? o.stride : o.kernel, .padding = o.padding} {
  Shape& shape = context.shape;
  CHECK(shape.rank() == 3, kind, ": needs samples of (C, H, W), got ", shape);
  const Shape in = shape;
  for (const int axis : {1, 2}) {
    const int64_t padded = in[axis] + 2 * o.padding;
    CHECK(padded >= o.kernel, kind, ": a window of ", o.kernel, " does not fit samples of ", in);
    CHECK(2 * o.padding <= o.kernel, kind, ": padding ", o.padding, " is more than half of ",
          "the kernel, ", o.kernel);
    shape[axis] = (padded - o.kernel) / options_.stride + 1;
  }
}

static const AddEntry<MakeLayer> max_entry("max_pool2d", "largest of each window",
                                           make_layer<MaxPoolLayer, PoolLayerOptions>);
static const AddEntry<MakeLayer> avg_entry("avg_pool2d", "mean of each window",
                                           make_layer<AvgPoolLayer, PoolLayerOptions>);

// ---- adaptive pooling: the image is divided into size x size windows

namespace {
struct AdaptiveOptions {
  int64_t size = 1;
};
void visit(Visitor& v, AdaptiveOptions& o) {
  v("size", o.size, "height and width of the output", {.min = 1, .max = 65536});
}
}  // namespace

static ModulePtr make_adaptive(const AdaptiveOptions& o, LayerContext& context) {
  Shape& shape = context.shape;
  CHECK(shape.rank() == 3, "adaptive_avg_pool2d: needs samples of (C, H, W), got ", shape);
  shape = {shape[0], o.size, o.size};
  return std::make_unique<FunctionLayer>("adaptive_avg_pool2d", [size = o.size](const Tensor& x) {
    return adaptive_avg_pool2d(x, size, size);
  });
}
static const AddEntry<MakeLayer> adaptive_entry("adaptive_avg_pool2d", "means over an even grid",
                                                make_adaptive);

}  // namespace bellows
