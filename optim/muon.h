// Muon, for matrices and convolutions: momentum whose direction is made orthogonal.
//   v = momentum v + g,  u = v, or with nesterov  u = g + momentum v
//   X = u / |u| as (out, rest); ns_steps times  A = X X', X = a X + (b A + c A A) X
//   w = w - lr sqrt(max(1, out / rest)) X
// At a learning rate of 0, momentum and normalize_weights still apply, as in the author's
// airbench94_muon.py.
// K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024.
#pragma once
#include <cmath>
#include "core/tensor/kernel.h"
#include "optim/rule.h"

namespace bellows {

class Visitor;

struct MuonOptions {
  double lr = 0.02, momentum = 0.95;
  bool nesterov = true;
  int64_t ns_steps = 5;
  bool normalize_weights = false;  // scale w to norm sqrt(out) before each update
};
void visit(Visitor& v, MuonOptions& o);

// Arithmetic of one element.
template <class T> struct MuonMomentum {
  HD MuonMomentum(const MuonOptions& o, const StepValues& now)
      : grad_scale(T(now.scale)), momentum(T(o.momentum)), nesterov(o.nesterov) {}
  HD T direction(T g, T& v) const {
    v = std::fma(momentum, v, grad_scale * g);
    return nesterov ? std::fma(momentum, v, grad_scale * g) : v;
  }
  T grad_scale, momentum;
  bool nesterov;
};
HD inline double muon_scale(float norm) { return 1 / (double(norm) + 1e-7); }

template <class T> struct MuonStep {
  // norm: norm of the weight, which is scaled to sqrt(out); null: no scaling.
  HD MuonStep(int64_t out, int64_t rest, const float* norm, const StepValues& now)
      : keep(norm ? T(std::sqrt(double(out)) / *norm) : T(1)),
        rate(T(now.lr * std::sqrt(out > rest ? double(out) / double(rest) : 1.0))) {}
  HD T moved(T w, T x) const { return std::fma(-rate, x, keep * w); }
  T keep, rate;
};

namespace kernels {
// Updates v and writes u to x, (out, rest), from the gradient of weight `i`. No-op if
// state->found_inf.
inline constinit Kernel<void(const Tensor& x, const Launch& u, size_t i, const MuonOptions& o)>
    muon_momentum{"muon_momentum"};
// x = x / (norm + 1e-7).
inline constinit Kernel<void(const Tensor& x, const Tensor& norm)> muon_normalize{"muon_normalize"};
// y = base_scale * base + scale * a b, or a b', of contiguous row-major matrices. y must not alias
// the others.
struct MuonProduct {
  double base_scale = 0;
  Tensor base = {};  // undefined: none
  double scale = 1;
  Tensor a, b;
  bool transposed = false;  // multiply by b'
};
inline constinit Kernel<void(const Tensor& y, const MuonProduct& p)> muon_product{"muon_product"};
// Moves weight `i` along x, after scaling it to norm sqrt(out) if `norm` is defined. No-op if
// state->found_inf.
inline constinit Kernel<void(const Tensor& x, const Tensor& norm, const Launch& u, size_t i)>
    muon_step{"muon_step"};
// Increments state->applied, or state->skipped if state->found_inf.
inline constinit Kernel<void(const Tensor& any, StepState* state)> muon_end{"muon_end"};
}  // namespace kernels
}  // namespace bellows
