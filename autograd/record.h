// record() is the one way an op enters the graph. The engine knows nodes, never ops.
//
// A node keeps edges and no tensors: what stays alive for backward is exactly what its closure
// captured as Saved. An op reads top to bottom:
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

struct GradMeta;
using Edge = Ref<GradMeta>;  // to an input; null if that one needs no gradient
using Edges = std::vector<Edge, PoolAllocator<Edge>>;

// One recorded op. Derived nodes hold the closure; both live in one pooled block.
class Node {
 public:
  Node(const char* op, Edges edges);
  virtual ~Node() = default;
  Node(Node&&) = delete;
  static void* operator new(size_t bytes) { return pool_allocate(bytes); }
  static void operator delete(void* block, size_t bytes) { pool_release(block, bytes); }

  virtual Grads run(const Tensor& dy) = 0;
  virtual void release() = 0;  // drops the closure, and with it what was saved
  virtual bool released() const = 0;

  const char* op;
  Edges edges;
  uint64_t order;               // of creation: backward runs in the reverse
  const Site* site;             // where in the model it was recorded
  KernelOptions kernels;        // that its forward ran under
  Node* next_doomed = nullptr;  // in a list of nodes to be freed
};

// What a tracked tensor carries: a leaf collects `grad`, every other one owns its node.
struct GradMeta : Meta {
  GradMeta(const Tensor& of, Node* node) : shape(of.shape()), node(node) {
    if (!node) strides = of.is_dense() ? of.strides() : strides_of(shape);
  }
  ~GradMeta() override;
  static void* operator new(size_t bytes) { return pool_allocate(bytes); }
  static void operator delete(void* block, size_t bytes) { pool_release(block, bytes); }

  Shape shape;
  Strides strides;  // of a leaf's gradient
  Node* node;       // owned; null for a leaf
  Tensor grad, grad_place;
  GradHook hook;
  // Of a leaf: its values in 16 bits (autograd/amp.h), the leaf's version that they are of, and
  // whether a product has read them since an update wrote them.
  Tensor low;
  uint32_t low_version = 0;
  bool low_read = false;
  // Of the pass in progress:
  uint64_t pass = 0;
  int shares = 0;            // that consumers have still to send
  bool place_given = false;  // grad_out() has handed it to somebody
  Tensor dy;                 // the sum of those that have come
};

inline GradMeta* grad_meta(const Tensor& t) { return static_cast<GradMeta*>(t.meta().get()); }

bool& grad_mode();

// No history is recorded on this thread while one of these lives.
class NoGrad {
 public:
  NoGrad() : previous_(std::exchange(grad_mode(), false)) {}
  ~NoGrad() { grad_mode() = previous_; }
  NoGrad(NoGrad&&) = delete;

 private:
  bool previous_;
};

inline bool needs_grad(const Tensor& t) { return bool(t.meta()); }
namespace detail {
bool tracking();  // grad mode; where it is off, an op that could have been recorded is counted
}
// True if record() would record an op with these inputs. Where it is false an op returns at once,
// and saves nothing.
template <class... Inputs> bool will_record(const Inputs&... inputs) {
  return (needs_grad(inputs) || ...) && detail::tracking();
}
inline bool will_record(std::span<const Tensor> inputs) {
  return std::ranges::any_of(inputs, needs_grad) && detail::tracking();
}
Tensor require_grad(const Tensor& t);  // t as a leaf
bool is_leaf(const Tensor& t);         // has a gradient of its own to collect

// A tensor kept for backward. Counts its bytes in mem.saved_bytes, once a storage; parameters
// (leaves) live anyway and are not counted. Reading it after an in-place write is an error.
class Saved {
 public:
  explicit Saved(const Tensor& t);
  Saved(Saved&& other) noexcept = default;
  Saved(const Saved& other) : Saved(other.tensor_) { version_ = other.version_; }
  ~Saved();
  const Tensor& operator()() const;

 private:
  Tensor tensor_;  // without history, unless it is a leaf: grad_out() wants that one
  uint32_t version_ = 0;
};

template <class Closure> class NodeOf final : public Node {
 public:
  NodeOf(const char* op, Edges edges, Closure&& closure)
      : Node(op, std::move(edges)), closure_(std::move(closure)) {}
  Grads run(const Tensor& dy) override { return (*closure_)(dy); }
  void release() override { closure_.reset(); }
  bool released() const override { return !closure_; }

 private:
  std::optional<Closure> closure_;
};

namespace detail {
// An input, by reference: a list of tensors would copy each of them.
struct Input {
  const Tensor* tensor;
  Input(const Tensor& t) : tensor(&t) {}
};
// Empty: nothing to record.
Edges edges_to(std::span<const Input> inputs);
Edges edges_to(std::span<const Tensor> inputs);
Tensor attach(Tensor y, Node* node);

template <class Closure, class Inputs>
Tensor record(const char* op, Tensor&& y, const Inputs& inputs, Closure&& closure) {
  Edges edges = edges_to(inputs);
  if (edges.empty()) return std::move(y);
  using Kept = std::remove_cvref_t<Closure>;
  return attach(std::move(y),
                new NodeOf<Kept>(op, std::move(edges), Kept(std::forward<Closure>(closure))));
}
}  // namespace detail

// y with history: closure(dy) must return one gradient per input, in order. It runs under NoGrad
// and under the kernel options of its forward. dy may have any strides.
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
