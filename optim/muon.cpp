#include "optim/muon.h"
#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include "core/base/round.h"
#include "core/config/choice.h"
#include "core/config/visitor.h"
#include "core/device/parallel.h"
#include "core/tensor/scaled_product.h"

namespace bellows {

void visit(Visitor& v, MuonOptions& o) {
  v("lr", o.lr, "peak learning rate", {.min = 0});
  v("momentum", o.momentum, "share of the last direction that is kept", {.min = 0, .max = 1});
  v("nesterov", o.nesterov, "look ahead: the gradient plus the momentum after it");
  v("ns_steps", o.ns_steps, "Newton-Schulz iterations", {.min = 1, .max = 100});
  v("ns_dtype", o.ns_dtype, {"f32", "bf16"},
    "of these iterations' products; bf16: as the author's code, faster on a GPU");
  v("normalize_weights", o.normalize_weights, "a weight starts each update with norm sqrt(out)");
}

static void check(const NamedTensor& parameter) {
  const auto& [name, w] = parameter;
  const bool fits = w.numel() > 0 && w.numel() < int64_t{1} << 31;
  CHECK(w.rank() >= 2 && fits && w.strides()[0] * w.dim(0) == w.numel(),
        "optimizer: muon takes matrices and convolutions, with their first axis outermost; '", name,
        "' has shape ", w.shape(), " and strides ", w.strides(),
        "; give it to another rule in optimizer.groups");
}

// Places the weights that have a gradient, sorted by shape.
static std::vector<MuonMatrix> matrices_of(const Launch& u) {
  std::vector<MuonMatrix> all;
  for (size_t i = 0; i < u.weights.size(); ++i) {
    const Tensor& w = u.weights[i];
    if (!u.grads[i].defined()) continue;
    all.push_back(
        {.weight = i, .out = w.dim(0), .rest = w.numel() / w.dim(0), .at = 0, .chunk = 0});
  }
  const auto shape = [](const MuonMatrix& m) { return std::pair(m.out, m.rest); };
  std::ranges::stable_sort(all, {}, shape);
  constexpr int64_t kAlign = 128;  // elements, for the vector loads of libraries
  for (size_t i = 1; i < all.size(); ++i) {
    const MuonMatrix& last = all[i - 1];
    const int64_t end = last.at + last.numel();
    all[i].at = shape(last) == shape(all[i]) ? end : round_up(end, kAlign);
    all[i].chunk = last.chunk + last.chunks();
  }
  return all;
}

namespace {

// Plans of libraries for the three products of n weights of one shape, by (n, rows, columns).
using ProductSlots = std::map<std::array<int64_t, 3>, std::array<Slot, 3>>;

// Iterates on n wide matrices (n, rows, columns) in x, with y for every second result. Returns the
// number of products.
int64_t newton_schulz(Tensor x, Tensor y, int64_t steps, ProductSlots& slots) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const int64_t n = x.dim(0), rows = x.dim(1), columns = x.dim(2);
  auto& [of_gram, of_polynomial, of_x] = slots[{n, rows, columns}];
  const Tensor gram = empty({n, rows, rows}, x), polynomial = empty_like(gram);
  for (int64_t i = 0; i < steps; ++i, std::swap(x, y)) {
    const Tensor turned = x.view({n, columns, rows}, {rows * columns, 1, columns}, x.offset());
    kernels::scaled_product(gram, {}, x, turned, {}, of_gram);
    kernels::scaled_product(polynomial, gram, gram, gram, {c, b}, of_polynomial);
    kernels::scaled_product(y, x, polynomial, x, {1, a}, of_x);
  }
  return 3 * steps;
}

// Returns the number of kernels.
int64_t update(const Launch& u, const MuonOptions& o, ProductSlots& slots) {
  const std::vector<MuonMatrix> all = matrices_of(u);
  if (all.empty()) return 0;
  const MuonMatrix& last = all.back();
  const Tensor& w = u.weights[last.weight];
  const Shape flat{last.at + last.numel()};
  const bool low = o.ns_dtype == MuonOptions::bf16 && w.dtype() == DType::f32;
  const Tensor direction = empty(flat, w);
  const Tensor squares({2, last.chunk + last.chunks()}, DType::f64, w.device());
  const Tensor x(flat, low ? DType::bf16 : w.dtype(), w.device()), y = empty_like(x);
  int64_t launches = kernels::muon_momentum(direction, squares, u, all, o) +
                     kernels::muon_normalize(x, direction, squares, u, all);
  for (size_t first = 0, end = 0; first < all.size(); first = end) {
    const MuonMatrix& m = all[first];
    while (end < all.size() && all[end].out == m.out && all[end].rest == m.rest) ++end;
    const auto n = int64_t(end - first);
    const auto group = [&](const Tensor& t) {
      const int64_t columns = std::max(m.out, m.rest);
      return t.view({n, std::min(m.out, m.rest), columns}, {m.numel(), columns, 1}, m.at);
    };
    launches += newton_schulz(group(x), group(y), o.ns_steps, slots);
  }
  return launches + kernels::muon_step(o.ns_steps % 2 ? y : x, squares, u, all, o);
}

}  // namespace

static UpdateRule muon(const MuonOptions& o) {
  const auto run = [o, slots = std::make_shared<ProductSlots>()](const Launch& u) {
    return update(u, o, *slots);
  };
  return {.lr = o.lr,
          .buffers = {"momentum"},
          .passes = {1},
          .reads_low_grads = true,
          .run = run,
          .check = check};
}
static const AddEntry<UpdateRule()> muon_entry("muon", "orthogonal momentum, for matrices", muon);

// ---- CPU

// Calls fn(chunk, begin, end) for the chunks of a matrix; `chunk` is its index among all.
template <class Fn> static void for_chunks(const MuonMatrix& m, const Fn& fn) {
  parallel_for(m.numel(), MuonMatrix::kChunk, [&](int64_t begin, int64_t end) {
    fn(m.chunk + begin / MuonMatrix::kChunk, begin, end);
  });
}

static float norm_of(const double* squares, const MuonMatrix& m) {
  return muon_norm(std::accumulate(squares + m.chunk, squares + m.chunk + m.chunks(), 0.0));
}

static int64_t momentum_cpu(const Tensor& direction, const Tensor& squares, const Launch& u,
                            MuonMatrices matrices, const MuonOptions& o) {
  if (u.step.state->found_inf) return 1;
  double *const of_u = squares.ptr<double>(), *const of_w = of_u + squares.dim(1);
  visit_float(direction.dtype(), [&]<class T>(T) {
    const MuonMomentum<T> rule(o, u.step.values());
    for (const MuonMatrix& m : matrices) {
      const Row<T> row = row_of<T>(u, m.weight, 0);
      T* const to = direction.ptr<T>() + m.at;
      for_chunks(m, [&](int64_t chunk, int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k)
          to[k] = rule.direction(row.gradient(k), row.buffer[0][k]);
        of_u[chunk] = sum_of_squares(to + begin, end - begin);
        if (o.normalize_weights) of_w[chunk] = sum_of_squares(row.w + begin, end - begin);
      });
    }
  });
  return 1;
}

static int64_t normalize_cpu(const Tensor& x, const Tensor& direction, const Tensor& squares,
                             const Launch&, MuonMatrices matrices) {
  visit_float(direction.dtype(), [&]<class T>(T) {
    const auto write = [&]<class X>(X* to) {
      for (const MuonMatrix& m : matrices) {
        const T scale = T(muon_scale(norm_of(squares.ptr<double>(), m)));
        const T* const from = direction.ptr<T>() + m.at;
        X* const matrix = to + m.at;
        for_chunks(m, [&, rest = Divisor(m.rest)](int64_t, int64_t begin, int64_t end) {
          for (int64_t k = begin; k < end; ++k)
            matrix[MuonMatrix::in_x(int(k), int(m.out), rest)] = X(from[k] * scale);
        });
      }
    };
    x.dtype() == DType::bf16 ? write(x.ptr<Bf16>()) : write(x.ptr<T>());
  });
  return 1;
}

static int64_t step_cpu(const Tensor& x, const Tensor& squares, const Launch& u,
                        MuonMatrices matrices, const MuonOptions& o) {
  const double* const of_w = squares.ptr<double>() + squares.dim(1);
  const auto move = [&]<class T, class X>(T, const X* from) {
    for (const MuonMatrix& m : matrices) {
      const MuonStep<T> rule(m.out, m.rest, o.normalize_weights ? norm_of(of_w, m) : 0,
                             u.step.values());
      const Row<T> row = row_of<T>(u, m.weight, 0);
      for_chunks(m, [&, rest = Divisor(m.rest)](int64_t, int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) {
          const int64_t at = m.at + MuonMatrix::in_x(int(k), int(m.out), rest);
          row.w[k] = rule.moved(row.w[k], T(from[at]));
          write_copy(row, k);
        }
      });
    }
  };
  if (!u.step.state->found_inf)
    visit_float(u.weights[matrices[0].weight].dtype(), [&]<class T>(T zero) {
      x.dtype() == DType::bf16 ? move(zero, x.ptr<Bf16>()) : move(zero, x.ptr<T>());
    });
  if (u.last) finish_step(*u.step.state);
  return 1;
}

static const bool muon_on_cpu = kernels::muon_momentum.on(Device::cpu, momentum_cpu) &&
                                kernels::muon_normalize.on(Device::cpu, normalize_cpu) &&
                                kernels::muon_step.on(Device::cpu, step_cpu);

}  // namespace bellows
