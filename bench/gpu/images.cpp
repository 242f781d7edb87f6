// Pooling of (N, 64, 112, 112), and of (N, 512, 7, 7) to one pixel.
#include "bench/gpu/bandwidth.h"
#include "ops/pool.h"

namespace bellows {

// As ResNet's: 3x3, stride 2, padding 1.
static Windows windows(int64_t side) {
  return Windows::sliding(side, {.kernel = 3, .stride = 2, .padding = 1});
}

static Work max_pool(const Setup& s) {
  const Tensor x = s.normal(s.images(64, 112));
  const Windows w = windows(112);
  return work({x}, [=] {
    const kernels::MaxPool pool = kernels::max_pool2d(x, w, w);
    return Outputs{pool.y, pool.winner};
  });
}
static Work max_pool_backward(const Setup& s) {
  const Tensor x = s.normal(s.images(64, 112));
  const Windows w = windows(112);
  const kernels::MaxPool pool = kernels::max_pool2d(x, w, w);
  return work({pool.y, pool.winner}, [=, shape = x.shape()] {
    return Outputs{kernels::max_pool2d_backward(pool.y, pool.winner, shape, w, w)};
  });
}

static Work avg_pool(const Setup& s, int64_t channels, const Windows& w) {
  const Tensor x = s.normal(s.images(channels, w[w.size() - 1].end));
  return work({x}, [=] { return Outputs{kernels::avg_pool2d(x, w, w)}; });
}
static Work avg_pool_backward(const Setup& s, int64_t channels, const Windows& w) {
  const Tensor x = s.normal(s.images(channels, w[w.size() - 1].end));
  const Tensor dy = kernels::avg_pool2d(x, w, w);
  return work({dy}, [=, shape = x.shape()] {
    return Outputs{kernels::avg_pool2d_backward(dy, shape, w, w)};
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
};

}  // namespace bellows
