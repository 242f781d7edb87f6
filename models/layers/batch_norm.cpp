#include "models/layers/batch_norm.h"
#include "core/config/visitor.h"
#include "models/layers/sync_batch_norm.h"

namespace bellows {

static void visit(Visitor& v, BatchNormLayerOptions& o) {
  v("eps", o.eps, "added to the variance", {.min = 0});
  v("momentum", o.momentum, "share of a batch in the running statistics", {.min = 0, .max = 1});
}

BatchNormLayer::BatchNormLayer(const BatchNormLayerOptions& options, LayerContext& context)
    : options_(options), group_(context.group) {
  CHECK(context.shape.rank() == 1 || context.shape.rank() == 3,
        "batch_norm: needs samples of (C) or (C, H, W), got ", context.shape);
  const Shape channels{context.shape[0]};
  const Device device = context.device;
  weight_ = add_parameter("weight", channels, {Init::constant, 1}, device);
  bias_ = add_parameter("bias", channels, {Init::constant, 0}, device);
  running_ = {add_buffer("running_mean", zeros(channels, DType::f32, device)),
              add_buffer("running_var", full(channels, 1, DType::f32, device)),
              add_buffer("num_batches_tracked", zeros({}, DType::i64, device))};
}

BatchNormOptions BatchNormLayer::options() const {
  return {.eps = options_.eps, .momentum = options_.momentum, .training = takes_statistics()};
}
Tensor BatchNormLayer::forward(const Tensor& x) {
  if (synchronized() && takes_statistics()) return sync_batch_norm(x, {}, false, norm(), *group_);
  return batch_norm(x, norm());
}
Tensor BatchNormLayer::with_relu(const Tensor& x, const Tensor& residual) {
  if (synchronized() && takes_statistics())
    return sync_batch_norm(x, residual, true, norm(), *group_);
  return batch_norm_relu(x, residual, norm());
}

static const AddEntry<MakeLayer> batch_norm_entry(
    "batch_norm", "each channel with mean 0 and variance 1",
    make_layer<BatchNormLayer, BatchNormLayerOptions>);

}  // namespace bellows
