// Softmax on the GPU: one warp or block per line along the last axis, in blocks of kThreads
// threads. Reads x twice, the second time from a cache, and writes y once.
#include "core/device/shared.cuh"
#include "core/tensor/copy.h"
#include "core/tensor/line.cuh"
#include "ops/exps.cuh"
#include "ops/softmax.h"

namespace bellows {

namespace {

struct Softmax {
  template <class A> __device__ static A norm(Exps<A> line) { return 1 / line.sum; }
  template <class A> __device__ static A value(A shifted, A norm) {
    return std::exp(shifted) * norm;
  }
  // share: summand of the sum over a line that backward needs. slope: dx, from that sum.
  template <class A> __device__ static A share(A dy, A y) { return dy * y; }
  template <class A> __device__ static A slope(A dy, A y, A sum) { return y * (dy - sum); }
};
struct LogSoftmax {
  template <class A> __device__ static A norm(Exps<A> line) { return std::log(line.sum); }
  template <class A> __device__ static A value(A shifted, A norm) { return shifted - norm; }
  template <class A> __device__ static A share(A dy, A) { return dy; }
  template <class A> __device__ static A slope(A dy, A y, A sum) { return dy - std::exp(y) * sum; }
};

template <class F, class T>
__global__ void forward(const T* x, T* y, int64_t lines, int64_t n, Team team) {
  using A = Acc<T>;
  const int64_t line = team.line(), first = line * n;
  if (line >= lines) return;
  Exps<A> exps = Exps<A>::nothing();
  for_line<T>(
      n, team, [&](int64_t, A value) { exps.take(value); }, x + first);
  exps = team.fold(exps, Exps<A>::nothing(), JoinExps(), dynamic_shared<Exps<A>>());
  const A norm = F::norm(exps);
  const auto value = [&](int64_t, A value) { return F::value(value - exps.max, norm); };
  map_line(y + first, n, team, value, x + first);
}

template <class F, class T>
__global__ void backward(const T* dy, const T* y, T* dx, int64_t lines, int64_t n, Team team) {
  using A = Acc<T>;
  const int64_t line = team.line(), first = line * n;
  if (line >= lines) return;
  A sum = 0;
  const auto add = [&](int64_t, A g, A value) { sum += F::share(g, value); };
  for_line<T>(n, team, add, dy + first, y + first);
  sum = team.fold(sum, A(0), Plus(), dynamic_shared<A>());
  const auto slope = [&](int64_t, A g, A value) { return F::slope(g, value, sum); };
  map_line(dx + first, n, team, slope, dy + first, y + first);
}

template <class F> Tensor forward_cuda(const Tensor& x) {
  const Tensor dense = contiguous(x), y = empty(x.shape(), x);
  if (x.numel() == 0) return y;
  const int64_t n = x.dim(-1), lines = x.numel() / n;
  visit_stored(x.dtype(), [&]<class T>(T) {
    const Team team = team_for(n);
    Grid grid = grid_of_lines(lines, team);
    grid.shared_bytes = kWarp * sizeof(Exps<Acc<T>>);
    launch(forward<F, T>, grid, dense.ptr<T>(), y.ptr<T>(), lines, n, team);
  });
  return y;
}

template <class F> Tensor backward_cuda(const Tensor& dy, const Tensor& y) {
  const Tensor dense = contiguous(dy), dx = empty(y.shape(), y);
  if (y.numel() == 0) return dx;
  const int64_t n = y.dim(-1), lines = y.numel() / n;
  visit_stored(y.dtype(), [&]<class T>(T) {
    const Team team = team_for(n);
    Grid grid = grid_of_lines(lines, team);
    grid.shared_bytes = kWarp * sizeof(Acc<T>);
    launch(backward<F, T>, grid, dense.ptr<T>(), y.ptr<T>(), dx.ptr<T>(), lines, n, team);
  });
  return dx;
}

const bool gpu = kernels::softmax.on(Device::cuda, forward_cuda<Softmax>) &&
                 kernels::softmax_backward.on(Device::cuda, backward_cuda<Softmax>) &&
                 kernels::log_softmax.on(Device::cuda, forward_cuda<LogSoftmax>) &&
                 kernels::log_softmax_backward.on(Device::cuda, backward_cuda<LogSoftmax>);

}  // namespace
}  // namespace bellows
