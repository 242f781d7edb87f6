#include "models/layers/conv2d.h"
#include <cmath>
#include "core/base/trace.h"
#include "core/config/visitor.h"

namespace bellows {

static void visit(Visitor& v, Conv2dLayerOptions& o) {
  v("out", o.out, "output channels", {.min = 1, .max = 1 << 24})
      .also({"out_channels", "out_features"});
  v("kernel", o.kernel, "height and width of the kernel", {.min = 1, .max = 65536})
      .also({"kernel_size"});
  v("stride", o.stride, "step between outputs", {.min = 1, .max = 65536});
  v("padding", o.padding, "zeros on each side", {.min = 0, .max = 65536});
  v("bias", o.bias, "add one value per channel");
  v("init", o.init, {"uniform", "kaiming_normal"}, "of the weights: by fan_in; by fan_out");
}

void Conv2dLayer::add_parameters(Device device, const MemoryFormat& format) {
  const Conv2dLayerOptions& o = options_;
  const double taps = double(o.kernel * o.kernel);
  const Init by_fan_in{Init::uniform, 1 / std::sqrt(double(in_channels_) * taps)};
  const Init by_fan_out{Init::normal, std::sqrt(2 / (double(o.out) * taps))};
  const bool kaiming = o.init == Conv2dLayerOptions::Start::kaiming_normal;
  weight_ = add_parameter("weight", {o.out, in_channels_, o.kernel, o.kernel},
                          kaiming ? by_fan_out : by_fan_in, device, format);
  if (o.bias) bias_ = add_parameter("bias", {o.out}, by_fan_in, device);
}

Conv2dLayer::Conv2dLayer(const Conv2dLayerOptions& o, LayerContext& context) : options_(o) {
  Shape& shape = context.shape;
  CHECK(shape.rank() == 3, "conv2d: needs samples of (C, H, W), got ", shape);
  CHECK(shape[1] + 2 * o.padding >= o.kernel && shape[2] + 2 * o.padding >= o.kernel,
        "conv2d: a kernel of ", o.kernel, " does not fit samples of ", shape);
  in_channels_ = shape[0];
  add_parameters(context.device, context.format);
  const auto outputs = [&](int64_t size) {
    return (size + 2 * o.padding - o.kernel) / o.stride + 1;
  };
  shape = {o.out, outputs(shape[1]), outputs(shape[2])};
}

void Conv2dLayer::store_in_nchw() {
  if (weight_.is_contiguous()) return;
  const Device device = weight_.device();
  drop_parameter("weight");
  drop_parameter("bias");
  add_parameters(device, kNCHW);
}

void Conv2dLayer::drop_bias(const Tensor& mean) {
  drop_parameter("bias", mean);
  bias_ = {};
  trace::count<"model.conv_biases_dropped">();
}

Tensor Conv2dLayer::forward(const Tensor& x) {
  return conv2d(x, weight_, bias_, {.stride = options_.stride, .padding = options_.padding},
                &slot_);
}

static const AddEntry<MakeLayer> conv2d_entry("conv2d", "convolution",
                                              make_layer<Conv2dLayer, Conv2dLayerOptions>);

}  // namespace bellows
