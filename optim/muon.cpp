#include "optim/muon.h"
#include <Eigen/Core>
#include <cmath>
#include "core/config/choice.h"
#include "core/config/visitor.h"
#include "core/device/parallel.h"
#include "core/tensor/copy.h"

namespace bellows {

void visit(Visitor& v, MuonOptions& o) {
  v("lr", o.lr, "peak learning rate", {.min = 0});
  v("momentum", o.momentum, "share of the last direction that is kept", {.min = 0, .max = 1});
  v("nesterov", o.nesterov, "look ahead: the gradient plus the momentum after it");
  v("ns_steps", o.ns_steps, "Newton-Schulz iterations", {.min = 1, .max = 100});
  v("normalize_weights", o.normalize_weights, "a weight starts each update with norm sqrt(out)");
}

static void check(const NamedTensor& parameter) {
  const auto& [name, w] = parameter;
  CHECK(w.rank() >= 2 && w.numel() > 0 && w.strides()[0] * w.dim(0) == w.numel(),
        "optimizer: muon takes matrices and convolutions, with their first axis outermost; '", name,
        "' has shape ", w.shape(), " and strides ", w.strides(),
        "; give it to another rule in optimizer.groups");
}

// Returns the shape (out, rest) of a weight as a matrix.
static Shape matrix_of(const Tensor& w) { return {w.dim(0), w.numel() / w.dim(0)}; }

static Tensor transposed(const Tensor& x) {
  return contiguous(x.view({x.dim(1), x.dim(0)}, {1, x.dim(1)}, 0));
}

static Tensor newton_schulz(Tensor x, int64_t steps) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const Shape square{x.dim(0), x.dim(0)};
  const Tensor gram = empty(square, x), polynomial = empty(square, x);
  Tensor y = empty_like(x);
  for (int64_t i = 0; i < steps; ++i, std::swap(x, y)) {
    kernels::muon_product(gram, {.a = x, .b = x, .transposed = true});
    kernels::muon_product(polynomial, {b, gram, c, gram, gram});
    kernels::muon_product(y, {a, x, 1, polynomial, x});
  }
  return x;
}

// Returns the number of kernels.
static int64_t update(const Launch& u, size_t i, const MuonOptions& o) {
  const Tensor& w = u.weights[i];
  const Tensor direction = empty(matrix_of(w), w);
  kernels::muon_momentum(direction, u, i, o);
  kernels::muon_normalize(direction, norm_of({&direction, 1}));
  // Works on the transpose of tall matrices: X X' is smaller if X has no more rows than columns.
  const bool tall = direction.dim(0) > direction.dim(1);
  const Tensor x = newton_schulz(tall ? transposed(direction) : direction, o.ns_steps);
  const Tensor norm = o.normalize_weights ? norm_of({&w, 1}) : Tensor();
  kernels::muon_step(tall ? transposed(x) : x, norm, u, i);
  const int64_t transposes = tall && direction.dim(1) > 1 ? 2 : 0;
  return 4 + 3 * o.ns_steps + transposes + o.normalize_weights;
}

static UpdateRule muon(const MuonOptions& o) {
  const auto run = [o](const Launch& u) {
    int64_t launches = u.last;
    for (size_t i = 0; i < u.weights.size(); ++i)
      if (u.grads[i].defined()) launches += update(u, i, o);
    if (u.last) kernels::muon_end(u.weights.front(), u.state);
    return launches;
  };
  return {.lr = o.lr, .buffers = {"momentum"}, .passes = {1}, .run = run, .check = check};
}
static const AddEntry<UpdateRule()> entry("muon", "orthogonal momentum, for matrices", muon);

// ---- CPU

static StepValues step_values(const Launch& u) {
  return step_values(*u.state, u.lr_table, u.lr_updates, u.clip_norm);
}

static void momentum_cpu(const Tensor& x, const Launch& u, size_t i, const MuonOptions& o) {
  if (u.state->found_inf) return;
  visit_float(x.dtype(), [&]<class T>(T) {
    const MuonMomentum<T> rule(o, step_values(u));
    const T* const g = u.grads[i].ptr<T>();
    T *const v = u.buffers[i].ptr<T>(), *const to = x.ptr<T>();
    for (int64_t k = 0; k < x.numel(); ++k) to[k] = rule.direction(g[k], v[k]);
  });
}

static void normalize_cpu(const Tensor& x, const Tensor& norm) {
  scale_each({&x, 1}, muon_scale(*norm.ptr<float>()));
}

template <class T> using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class T> static auto matrix(const Tensor& t) {
  return Eigen::Map<Matrix<T>>(t.ptr<T>(), t.dim(0), t.dim(1));
}

static void product_cpu(const Tensor& y, const kernels::MuonProduct& p) {
  constexpr int64_t kRows = 64;
  visit_float(y.dtype(), [&]<class T>(T) {
    const auto a = matrix<T>(p.a), b = matrix<T>(p.b);
    parallel_for(y.dim(0), kRows, [&](int64_t first, int64_t end) {
      auto rows = matrix<T>(y).middleRows(first, end - first);
      const auto left = a.middleRows(first, end - first);
      if (p.transposed)
        rows.noalias() = T(p.scale) * (left * b.transpose());
      else
        rows.noalias() = T(p.scale) * (left * b);
      if (p.base.defined())
        rows += T(p.base_scale) * matrix<T>(p.base).middleRows(first, end - first);
    });
  });
}

static void step_cpu(const Tensor& x, const Tensor& norm, const Launch& u, size_t i) {
  if (u.state->found_inf) return;
  visit_float(x.dtype(), [&]<class T>(T) {
    const MuonStep<T> rule(x.dim(0), x.dim(1), norm.defined() ? norm.ptr<float>() : nullptr,
                           step_values(u));
    const Row<T> row = row_of<T>(u, i, 0);
    for (int64_t k = 0; k < x.numel(); ++k) {
      row.w[k] = rule.moved(row.w[k], x.ptr<T>()[k]);
      write_copy(row, k);
    }
  });
}

static const bool cpu =
    kernels::muon_momentum.on(Device::cpu, momentum_cpu) &&
    kernels::muon_normalize.on(Device::cpu, normalize_cpu) &&
    kernels::muon_product.on(Device::cpu, product_cpu) &&
    kernels::muon_step.on(Device::cpu, step_cpu) &&
    kernels::muon_end.on(Device::cpu, [](const Tensor&, StepState* s) { finish_step(*s); });

}  // namespace bellows
