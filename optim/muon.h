// Muon, for matrices and convolutions: momentum whose direction is made orthogonal.
//   v = momentum v + g,  u = v, or with nesterov  u = g + momentum v
//   X = u / |u| as (out, rest); ns_steps times  A = X X', X = a X + (b A + c A A) X
//   w = w - lr sqrt(max(1, out / rest)) X
// Weights of equal shape share each product. With ns_dtype bf16, X, A and the products are rounded
// to bf16, as in the author's code: singular values of X then differ by about 1 %, where the method
// itself leaves them anywhere from 0.7 to 1.2.
// At a learning rate of 0, momentum and normalize_weights still apply, as in the author's
// airbench94_muon.py.
// K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024.
#pragma once
#include <cmath>
#include <span>
#include "core/base/divisor.h"
#include "core/tensor/kernel.h"
#include "optim/rule.h"

namespace bellows {

class Visitor;

struct MuonOptions {
  double lr = 0.02, momentum = 0.95;
  bool nesterov = true;
  int64_t ns_steps = 5;
  enum NsDType { f32, bf16 } ns_dtype = f32;  // of the products for f32 weights
  bool normalize_weights = false;             // scale w to norm sqrt(out) before each update
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
HD inline float muon_norm(double squares) { return float(std::sqrt(squares)); }
HD inline double muon_scale(float norm) { return 1 / (double(norm) + 1e-7); }

template <class T> struct MuonStep {
  // norm: norm of the weight, which is scaled to sqrt(out); 0: no scaling.
  HD MuonStep(int64_t out, int64_t rest, float norm, const StepValues& now)
      : keep(norm != 0 ? T(std::sqrt(double(out)) / norm) : T(1)),
        rate(T(now.lr * std::sqrt(out > rest ? double(out) / double(rest) : 1.0))) {}
  HD T moved(T w, T x) const { return std::fma(-rate, x, keep * w); }
  T keep, rate;
};

// A weight (out, rest) in the buffers of an update. Matrices of equal shape are adjacent.
struct MuonMatrix {
  size_t weight;  // its index in the Launch
  int64_t out, rest;
  int64_t at, chunk;  // of its first element; of its first chunk of kChunk elements
  static constexpr int64_t kChunk = 4096;

  int64_t numel() const { return out * rest; }
  int64_t chunks() const { return ceil_div(numel(), kChunk); }
  // Works on the transpose of tall matrices: X X' is smaller if X has no more rows than columns.
  // Returns the index in X of element i of the weight.
  HD static int64_t in_x(int i, int out, const Divisor& rest) {
    return out > rest.size ? int64_t(i % rest) * out + i / rest : i;
  }
};
using MuonMatrices = std::span<const MuonMatrix>;

// `squares`: (2, chunks), f64, sums of the squares of each chunk of u, and of w. u and x: flat, all
// matrices. Each kernel returns the number of its launches.
namespace kernels {
// Updates v, writes u and its squares, and those of w if o.normalize_weights. No-op if
// state->found_inf.
inline constinit Kernel<int64_t(const Tensor& u, const Tensor& squares, const Launch& launch,
                                MuonMatrices matrices, const MuonOptions& o)>
    muon_momentum{"muon_momentum"};
// x = u / (|u| + 1e-7), transposed for tall matrices, in the dtype of x.
inline constinit Kernel<int64_t(const Tensor& x, const Tensor& u, const Tensor& squares,
                                const Launch& launch, MuonMatrices matrices)>
    muon_normalize{"muon_normalize"};
// Moves the weights along x, after scaling them to norm sqrt(out) if o.normalize_weights, and ends
// the update if it is the launch's last. The weights do not move if state->found_inf.
inline constinit Kernel<int64_t(const Tensor& x, const Tensor& squares, const Launch& launch,
                                MuonMatrices matrices, const MuonOptions& o)>
    muon_step{"muon_step"};
}  // namespace kernels
}  // namespace bellows
