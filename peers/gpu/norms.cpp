// Batch normalization of (N, 256, 56, 56), in both memory formats.
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "ops/norm/batch_norm.h"
#include "peers/gpu/bandwidth.h"

namespace bellows {

namespace {

struct Norm {
  Norm(const Setup& s, const MemoryFormat& format)
      : x(contiguous(s.normal(s.images(256, 56)), format)),
        residual(contiguous(s.normal(x.shape()), format)),
        weight(full({256}, 1, DType::f32, s.device)),
        dw(clone(weight)),
        db(clone(weight)),
        norm{kernels::channel_statistics(x, {}), weight, weight, 1e-5},
        bits(forward(true)[1]) {}

  Outputs forward(bool add) const {
    const auto [y, on] = kernels::batch_norm(x, norm, add ? residual : Tensor(), NormAct::relu);
    return {y, on};
  }
  // The residual serves as dy. keep: writes the masked dy, too.
  Outputs backward_w(bool keep) const {
    const kernels::Incoming g =
        kernels::batch_norm_backward_w(residual, {}, x, norm, bits, false, keep, dw, db);
    return keep ? Outputs{dw, db, g.dy} : Outputs{dw, db};
  }
  Outputs backward_x() const {
    return {kernels::batch_norm_backward_x(residual, x, norm, dw, db, bits)};
  }

  Tensor x, residual, weight, dw, db;
  kernels::Normalization norm;
  Tensor bits;
};

}  // namespace

static Task sums(const Setup& s, const MemoryFormat& format) {
  const Norm norm(s, format);
  return work({norm.x}, [=] { return Outputs{kernels::channel_statistics(norm.x, {})}; });
}
static Task forward(const Setup& s, const MemoryFormat& format, bool add) {
  const Norm norm(s, format);
  return work({norm.x, add ? norm.residual : norm.weight}, [=] { return norm.forward(add); });
}
static Task backward_w(const Setup& s, const MemoryFormat& format, bool keep) {
  const Norm norm(s, format);
  return work({norm.x, norm.residual, norm.bits}, [=] { return norm.backward_w(keep); });
}
static Task backward_x(const Setup& s, const MemoryFormat& format) {
  const Norm norm(s, format);
  return work({norm.x, norm.residual, norm.bits}, [=] { return norm.backward_x(); });
}

static const AddCases cases{
    {"batch_norm statistics, nhwc", "x;", [](const Setup& s) { return sums(s, kNHWC); }},
    {"batch_norm statistics, nchw", "x;", [](const Setup& s) { return sums(s, kNCHW); }},
    {"batch_norm + relu, nhwc", "x; y, bits",
     [](const Setup& s) { return forward(s, kNHWC, false); }},
    {"batch_norm + relu, nchw", "x; y, bits",
     [](const Setup& s) { return forward(s, kNCHW, false); }},
    {"batch_norm + add + relu, nhwc", "x, residual; y, bits",
     [](const Setup& s) { return forward(s, kNHWC, true); }},
    {"batch_norm backward to weights, nhwc", "dy, x, bits;",
     [](const Setup& s) { return backward_w(s, kNHWC, false); }},
    {"batch_norm backward to weights, nchw", "dy, x, bits;",
     [](const Setup& s) { return backward_w(s, kNCHW, false); }},
    {"batch_norm backward to weights and residual, nhwc", "dy, x, bits; dresidual",
     [](const Setup& s) { return backward_w(s, kNHWC, true); }},
    {"batch_norm backward, nhwc", "dy, x, bits; dx",
     [](const Setup& s) { return backward_x(s, kNHWC); }},
};

}  // namespace bellows
