// Muon, for matrices and convolutions: the direction of momentum, made orthogonal.
//   v = momentum v + g,  u = v, with nesterov g + momentum v
//   X = u / |u| as (out, rest); ns_steps times  A = X X', X = a X + (b A + c A A) X
//   w = w - lr sqrt(max(1, out / rest)) X
// A group that rests (rate 0) keeps its momentum going, and normalize_weights too, as in the
// author's airbench94_muon.py.
// K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024.
#pragma once
#include <cmath>
#include "core/tensor/kernel.h"
#include "optim/rule.h"

namespace bellows {

struct MuonOptions {
  double lr = 0.02, momentum = 0.95;
  bool nesterov = true;
  int64_t ns_steps = 5;
  bool normalize_weights = false;  // w starts an update with norm sqrt(out)
};
void visit(Visitor& v, MuonOptions& o);

// What happens to one element.
template <class T> struct MuonMomentum {
  HD MuonMomentum(const MuonOptions& o, const Now& now)
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
  // norm: of the weight, or null: it keeps its size.
  HD MuonStep(int64_t out, int64_t rest, const float* norm, const Now& now)
      : keep(norm ? T(std::sqrt(double(out)) / *norm) : T(1)),
        rate(T(now.lr * std::sqrt(out > rest ? double(out) / double(rest) : 1.0))) {}
  HD T moved(T w, T x) const { return std::fma(-rate, x, keep * w); }
  T keep, rate;
};

namespace kernels {
// v and u = x from the gradient of weight `i`; neither is touched where state->found_inf.
inline constinit Kernel<void(const Tensor& x, const Launch& u, size_t i, const MuonOptions& o)>
    muon_momentum{"muon_momentum"};
// x = x / (norm + 1e-7).
inline constinit Kernel<void(const Tensor& x, const Tensor& norm)> muon_normalize{"muon_normalize"};
// y = base_scale * base + scale * a b, or with b', of row-major matrices; no y among the others.
struct MuonProduct {
  double base_scale = 0;
  Tensor base = {};  // undefined: none
  double scale = 1;
  Tensor a, b;
  bool transposed = false;  // b' is meant
};
inline constinit Kernel<void(const Tensor& y, const MuonProduct& p)> muon_product{"muon_product"};
// Moves weight `i` along x, from norm sqrt(out) where `norm` is given; not where state->found_inf.
inline constinit Kernel<void(const Tensor& x, const Tensor& norm, const Launch& u, size_t i)>
    muon_step{"muon_step"};
// state->applied or state->skipped moves on.
inline constinit Kernel<void(const Tensor& any, StepState* state)> muon_end{"muon_end"};
}  // namespace kernels
}  // namespace bellows
