// record() adds an op to the autograd graph, and is the only function that does. The engine knows
// nodes, never ops. A graph is recorded and run by one thread.
//
// A node keeps edges and no tensors: only tensors that its closure captured as Saved stay alive for
// backward. A complete op:
//
//   return record("mul", kernels::mul(a, b), {a, b}, [a = Saved(a), b = Saved(b)](const Tensor& dy)
//   {
//     return Grads{kernels::mul(dy, b()), kernels::mul(dy, a())};
//   });
#pragma once
#include <functional>
#include <optional>
#include <utility>
#include "core/base/module_path.h"
#include "core/device/kernel_options.h"
#include "core/tensor/tensor.h"

namespace bellows {

using Grads = Tensors;  // one per input, in order; undefined = no gradient
using GradHook = std::function<void(const Tensor& grad)>;

// Autograd metadata of a tracked tensor: a Node if an op made it, else a Leaf. Tensors own it; so
// do the nodes of which it is an input. A node refers to its inputs only, so there are no cycles.
struct GradMeta : Meta {
  GradMeta(const Shape& shape, bool leaf) : shape(shape), leaf(leaf) {}
  static void* operator new(size_t bytes) { return small_block_allocate(bytes); }
  static void operator delete(void* block, size_t bytes) { pool_release(block, bytes); }

  const Shape shape;
  const bool leaf;
  // State of the current backward pass:
  int shares = 0;  // contributions still to come from consumers
  uint64_t pass = 0;
  Tensor dy;    // sum of the contributions so far
  Tensor more;  // the last contribution, if the node adds it to dy itself
};

using Edge = Ref<GradMeta>;  // to an input; null if the input needs no gradient
using Edges = std::vector<Edge, SmallBlockAllocator<Edge>>;

// A tensor that accumulates its gradient, such as a parameter.
struct Leaf final : GradMeta {
  explicit Leaf(const Tensor& of)
      : GradMeta(of.shape(), true), strides(of.is_dense() ? of.strides() : strides_of(shape)) {}

  const Strides strides;  // strides of the gradient
  Tensor grad, grad_place;
  bool place_given = false;  // in this backward pass, grad_out() has returned grad_place
  GradHook hook;
  // Cached 16-bit copy (autograd/amp.h), the version of the leaf that it holds, and whether a
  // product has read it since an update wrote it.
  Tensor low;
  uint32_t low_version = 0;
  bool low_read = false;
};

// A recorded op: the metadata of its result. The derived class NodeOf adds the closure that
// computes the gradients.
class Node : public GradMeta {
 public:
  Node(const char* op, const Shape& shape, Edges edges);
  ~Node() override;

  virtual Grads run(const Tensor& dy, const Tensor& more) = 0;
  virtual bool adds() const = 0;  // run() takes a gradient in two parts, dy + more
  virtual void release() = 0;     // drops the closure with the tensors it saved
  virtual bool released() const = 0;

  const char* op;
  Edges edges;
  uint64_t order;          // rank by creation; backward runs in reverse order
  const ModuleSite* site;  // module path at which it was recorded
  KernelOptions kernels;   // options that forward ran under; backward uses them too
};

inline GradMeta* grad_meta(const Tensor& t) { return static_cast<GradMeta*>(t.meta().get()); }
// Returns the node of `meta`; null for a leaf.
inline Node* node_of(GradMeta* meta) { return meta->leaf ? nullptr : static_cast<Node*>(meta); }
// Returns the metadata of a leaf. Throws Exit::usage, naming `caller`, for any other tensor.
Leaf& leaf_of(const Tensor& t, const char* caller = "leaf_of");

bool& grad_mode();  // true if this thread records ops

// Turns recording off on this thread while it lives.
struct NoGrad : Scoped<bool> {
  NoGrad() : Scoped(grad_mode(), false) {}
};

inline bool needs_grad(const Tensor& t) { return bool(t.meta()); }
namespace detail {
bool tracking();  // returns grad_mode(); if it is off, counts the op in grad.untracked_ops
}
// True if record() would record an op with these inputs. If false, an op can return early and save
// nothing. Call once per op: it counts untracked ops.
template <class... Inputs> bool will_record(const Inputs&... inputs) {
  return (needs_grad(inputs) || ...) && detail::tracking();
}
inline bool will_record(std::span<const Tensor> inputs) {
  return std::ranges::any_of(inputs, needs_grad) && detail::tracking();
}
Tensor require_grad(const Tensor& t);  // a new handle of t that is a leaf; t must be floating-point
inline bool is_leaf(const Tensor& t) { return needs_grad(t) && grad_meta(t)->leaf; }

// A tensor kept for backward. Counts its bytes in mem.saved_bytes, once per storage; parameters
// (leaves) live anyway and are not counted. Reading it after an in-place write throws Exit::usage.
class Saved {
 public:
  explicit Saved(const Tensor& t);
  Saved(Saved&& other) noexcept = default;
  Saved(const Saved& other) : Saved(other.tensor_) { version_ = other.version_; }
  ~Saved();
  const Tensor& operator()() const;

 private:
  Tensor tensor_;  // without history, except a leaf, which grad_out() must recognize
  uint32_t version_ = 0;
};

template <class Closure> class NodeOf final : public Node {
 public:
  NodeOf(const char* op, const Shape& shape, Edges edges, Closure&& closure)
      : Node(op, shape, std::move(edges)), closure_(std::move(closure)) {}
  Grads run(const Tensor& dy, const Tensor& more) override {
    if constexpr (kAdds)
      return (*closure_)(dy, more);
    else
      return (*closure_)(dy);
  }
  bool adds() const override { return kAdds; }
  void release() override { closure_.reset(); }
  bool released() const override { return !closure_; }

 private:
  static constexpr bool kAdds = std::is_invocable_v<Closure&, const Tensor&, const Tensor&>;
  std::optional<Closure> closure_;
};

namespace detail {
// Reference to an input; an initializer_list of tensors would copy each of them.
struct Input {
  const Tensor* tensor;
  Input(const Tensor& t) : tensor(&t) {}
};
// Returns the edges to the inputs; empty if there is nothing to record.
Edges edges_to(std::span<const Input> inputs);
Edges edges_to(std::span<const Tensor> inputs);

template <class Closure, class Inputs>
Tensor record(const char* op, Tensor&& y, const Inputs& inputs, Closure&& closure) {
  Edges edges = edges_to(inputs);
  if (edges.empty()) return std::move(y);
  using Kept = std::remove_cvref_t<Closure>;
  Ref<Meta> node(
      new NodeOf<Kept>(op, y.shape(), std::move(edges), Kept(std::forward<Closure>(closure))));
  return std::move(y).with_meta(std::move(node));
}
}  // namespace detail

// Returns y with history: `op` is its name in messages and must outlive the graph. closure(dy)
// must return one gradient per input, in order; undefined means none. It runs under NoGrad with the
// kernel options of forward. dy has y's shape and any strides. Returns y unchanged if no input
// needs a gradient or recording is off.
//
// closure(dy, more) receives the gradient of a y with several consumers before its last addition:
// it must use dy + more, rounded to their dtype, and can add while it reads. `more` is undefined if
// dy is the whole gradient.
template <class Closure>
Tensor record(const char* op, Tensor y, std::span<const Tensor> inputs, Closure&& closure) {
  return detail::record(op, std::move(y), inputs, std::forward<Closure>(closure));
}
template <class Closure>
Tensor record(const char* op, Tensor y, std::initializer_list<detail::Input> inputs,
              Closure&& closure) {
  return detail::record(op, std::move(y), std::span(inputs.begin(), inputs.size()),
                        std::forward<Closure>(closure));
}

}  // namespace bellows
