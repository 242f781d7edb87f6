#include "core/tensor/gemm.cuh"
#include "optim/muon.h"

namespace bellows {

namespace {

// Arguments of step_values(), for a kernel.
struct Moment {
  explicit Moment(const Launch& u)
      : state(u.state), lr_table(u.lr_table), lr_updates(u.lr_updates), clip_norm(u.clip_norm) {}
  __device__ StepValues now() const { return step_values(*state, lr_table, lr_updates, clip_norm); }
  const StepState* state;
  const double* lr_table;
  int64_t lr_updates;
  double clip_norm;
};

// Elementwise kernels: blocks of 256 threads that stride over the elements (grid_of). Values moved
// per element: momentum 4, normalize 2, step 3, and one more if there is a 16-bit copy.
template <class T>
__global__ void momentum(T* x, T* v, const T* g, int64_t n, MuonOptions o, Moment moment) {
  await_predecessor();
  if (moment.state->found_inf) return;
  const MuonMomentum<T> rule(o, moment.now());
  for (int64_t i = thread_index(); i < n; i += thread_count()) x[i] = rule.direction(g[i], v[i]);
}
void momentum_cuda(const Tensor& x, const Launch& u, size_t i, const MuonOptions& o) {
  visit_float(x.dtype(), [&]<class T>(T) {
    launch(momentum<T>, grid_of(x.numel()), x.ptr<T>(), u.buffers[i].ptr<T>(), u.grads[i].ptr<T>(),
           x.numel(), o, Moment(u));
  });
}

template <class T> __global__ void normalize(T* x, int64_t n, const float* norm) {
  await_predecessor();
  const T scale = T(muon_scale(*norm));
  for (int64_t i = thread_index(); i < n; i += thread_count()) x[i] *= scale;
}
void normalize_cuda(const Tensor& x, const Tensor& norm) {
  visit_float(x.dtype(), [&]<class T>(T) {
    launch(normalize<T>, grid_of(x.numel()), x.ptr<T>(), x.numel(), norm.ptr<float>());
  });
}

// Output of the tiled product (core/tensor/gemm.cuh): y = base_scale * base + scale * value.
template <class T> struct Sum {
  T* y;
  const T* base;
  T base_scale, scale;
  int columns;
  __device__ void enter(int) {}
  __device__ void store(int m, int n, T value) const {
    const int64_t i = int64_t(m) * columns + n;
    y[i] = base ? base_scale * base[i] + scale * value : scale * value;
  }
};
void product_cuda(const Tensor& y, const kernels::MuonProduct& p) {
  visit_float(y.dtype(), [&]<class T>(T) {
    const int rows = int(y.dim(0)), columns = int(y.dim(1)), depth = int(p.a.dim(1));
    const gemm::Matrix<T> a{p.a.ptr<T>(), 0, depth, 1, rows, depth};
    const gemm::Matrix<T> b{
        p.b.ptr<T>(), 0, p.transposed ? depth : 1, p.transposed ? 1 : columns, columns, depth};
    const T* const base = p.base.defined() ? p.base.ptr<T>() : nullptr;
    gemm::run(a, b, Sum<T>{y.ptr<T>(), base, T(p.base_scale), T(p.scale), columns},
              {1, rows, columns, depth});
  });
}

template <class T>
__global__ void step(Row<T> row, const T* x, int64_t out, int64_t rest, const float* norm,
                     Moment moment) {
  await_predecessor();
  if (moment.state->found_inf) return;
  const MuonStep<T> rule(out, rest, norm, moment.now());
  for (int64_t i = thread_index(); i < out * rest; i += thread_count()) {
    row.w[i] = rule.moved(row.w[i], x[i]);
    write_copy(row, i);
  }
}
void step_cuda(const Tensor& x, const Tensor& norm, const Launch& u, size_t i) {
  visit_float(x.dtype(), [&]<class T>(T) {
    launch(step<T>, grid_of(x.numel()), row_of<T>(u, i, 0), x.ptr<T>(), x.dim(0), x.dim(1),
           norm.defined() ? norm.ptr<float>() : nullptr, Moment(u));
  });
}

__global__ void end(StepState* state) {
  await_predecessor();
  finish_step(*state);
}
void end_cuda(const Tensor&, StepState* state) { launch(end, {1, 1}, state); }

const bool gpu = kernels::muon_momentum.on(Device::cuda, momentum_cuda) &&
                 kernels::muon_normalize.on(Device::cuda, normalize_cuda) &&
                 kernels::muon_product.on(Device::cuda, product_cuda) &&
                 kernels::muon_step.on(Device::cuda, step_cuda) &&
                 kernels::muon_end.on(Device::cuda, end_cuda);

}  // namespace

}  // namespace bellows
