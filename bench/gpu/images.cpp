// Pooling of (N, 64, 112, 112), global pooling of (N, 512, 7, 7), and augmentation of u8 images
// (N, 3, 224, 224) and (N, 3, 32, 32).
#include "bench/gpu/bandwidth.h"
#include "core/tensor/copy.h"
#include "data/feeds/augment.h"
#include "ops/conv/pool.h"

namespace bellows {

// As in ResNet: 3x3, stride 2, padding 1.
static Windows windows(int64_t side) {
  return Windows::sliding(side, {.kernel = 3, .stride = 2, .padding = 1});
}

static Task max_pool(const Setup& s) {
  const Tensor x = s.normal(s.images(64, 112));
  const Windows w = windows(112);
  return work({x}, [=] {
    const kernels::MaxPool pool = kernels::max_pool2d(x, w, w);
    return Outputs{pool.y, pool.winner};
  });
}
static Task max_pool_backward(const Setup& s) {
  const Tensor x = s.normal(s.images(64, 112));
  const Windows w = windows(112);
  const kernels::MaxPool pool = kernels::max_pool2d(x, w, w);
  return work({pool.y, pool.winner}, [=, shape = x.shape()] {
    return Outputs{kernels::max_pool2d_backward(pool.y, pool.winner, shape, w, w)};
  });
}

static Task avg_pool(const Setup& s, int64_t channels, const Windows& w) {
  const Tensor x = s.normal(s.images(channels, w[w.size() - 1].end));
  return work({x}, [=] { return Outputs{kernels::avg_pool2d(x, w, w)}; });
}
static Task avg_pool_backward(const Setup& s, int64_t channels, const Windows& w) {
  const Tensor x = s.normal(s.images(channels, w[w.size() - 1].end));
  const Tensor dy = kernels::avg_pool2d(x, w, w);
  return work({dy}, [=, shape = x.shape()] {
    return Outputs{kernels::avg_pool2d_backward(dy, shape, w, w)};
  });
}

// Random crop with padding, random flip, conversion to floating point.
static Task augment(const Setup& s, int64_t side, const MemoryFormat& format) {
  Augment a;
  a.recipe.edits[a.recipe.count++] = {
      .kind = Edit::Kind::crop, .size = side, .padding = side / 8, .place = 0};
  a.recipe.edits[a.recipe.count++] = {.kind = Edit::Kind::flip, .probability = .5, .place = 1};
  const Tensor indices = s.indices(s.images(3, side), 256), bytes = cast(indices, DType::u8);
  const Tensor order = s.indices({bytes.dim(0)}, bytes.dim(0));
  return work({bytes, order}, [=, dtype = s.dtype, device = s.device] {
    const Tensor x(bytes.shape(), dtype, device, format);
    kernels::augment(x, {}, bytes, {}, order, a);
    return Outputs{x};
  });
}

static const Windows whole = Windows::even(7, 1);
static const AddCases cases{
    {"max_pool2d, 3x3 by 2", "x; y, winner", max_pool},
    {"max_pool2d backward", "dy, winner; dx", max_pool_backward},
    {"avg_pool2d, 3x3 by 2", "x; y", [](const Setup& s) { return avg_pool(s, 64, windows(112)); }},
    {"avg_pool2d backward", "dy; dx",
     [](const Setup& s) { return avg_pool_backward(s, 64, windows(112)); }},
    {"global avg_pool2d, 7x7", "x; y", [](const Setup& s) { return avg_pool(s, 512, whole); }},
    {"global avg_pool2d backward", "dy; dx",
     [](const Setup& s) { return avg_pool_backward(s, 512, whole); }},
    {"augment, 224x224", "bytes; x", [](const Setup& s) { return augment(s, 224, kNCHW); }},
    {"augment, 224x224 to NHWC", "bytes; x", [](const Setup& s) { return augment(s, 224, kNHWC); }},
    {"augment, 32x32", "bytes; x", [](const Setup& s) { return augment(s, 32, kNCHW); }},
};

}  // namespace bellows
