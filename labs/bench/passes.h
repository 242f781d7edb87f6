// Parts of an update, timed alone: the model, one of its modules, a term of the loss.
#pragma once
#include "core/device/timer.h"
#include "trainer/session/session.h"

namespace bellows {

// A session that is ready for its first update. While it lives, kernels and precision are those of
// an update.
struct FirstUpdate {
  // Throws Error as Session does, and exit 2 under a launcher.
  explicit FirstUpdate(const Plan& plan);

  Session session;
  const Kernels kernels;
  const Autocast precision;
  Batch batch;  // first batch of the training set, on the device
};

// Forward and backward pass of a part.
struct Passes {
  std::string name;
  std::function<Tensor()> forward;       // records a graph and returns a scalar
  Tensors leaves;                        // their gradients are dropped after each backward pass
  double forward_s = 0, backward_s = 0;  // medians, set by measure()

  double seconds() const { return forward_s + backward_s; }
  void run() const;  // both passes
};
// Returns a scalar whose gradient with respect to y is dy.
Tensor scalar_with_grad(const Tensor& y, const Tensor& dy);
// Returns the passes of a module on input x. Computes the gradient of x if x has a history.
Passes passes_of(const std::string& name, Module& module, const Tensor& x);
void measure(std::vector<Passes>& parts, Device device);

// `trainer bench op --repeat PATH`: times a module of the model alone.
void repeat_module(const std::string& path, const Plan& plan);

}  // namespace bellows
