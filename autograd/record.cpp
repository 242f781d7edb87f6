#include "autograd/record.h"
#include <algorithm>
#include <atomic>
#include <iterator>
#include "autograd/op_log.h"
#include "autograd/recompute.h"
#include "core/base/trace.h"

namespace bellows {

bool& grad_mode() {
  static thread_local bool on = true;
  return on;
}

static OpLog*& op_log() {
  static constinit thread_local OpLog* log = nullptr;
  return log;
}
OpLog::OpLog() : outer_(std::exchange(op_log(), this)) {}
OpLog::~OpLog() { op_log() = outer_; }

// A handle of the result that is saved in the node's own closure has no history, so there is no
// reference cycle.
Node::Node(const char* op, const Shape& shape, Edges edges)
    : GradMeta(shape, false),
      op(op),
      edges(std::move(edges)),
      site(current_site()),
      kernels(kernel_options()) {
  static std::atomic<uint64_t> next{0};
  order = next.fetch_add(1, std::memory_order_relaxed);
  trace::count<"graph.nodes">();
  if (OpLog* const log = op_log()) {
    RecordedOp& recorded = log->ops.back();  // edges_to() has added it with its inputs
    recorded.name = op;
    recorded.path = site->path;
    recorded.y = shape;
    recorded.grad = static_cast<const GradMeta*>(this);
    recorded.end_ns = trace::now_ns();
  }
}

// Frees the nodes that only this one kept alive, in a loop: nested destructors of a long chain
// would overflow the stack.
Node::~Node() {
  Edges doomed = std::move(edges);
  while (!doomed.empty()) {
    const Edge input = std::move(doomed.back());
    doomed.pop_back();
    Node* const node = input && input->references() == 1 ? node_of(input.get()) : nullptr;
    if (!node) continue;
    node->release();  // first, so that captured inputs are referenced by the edges only
    std::ranges::move(node->edges, std::back_inserter(doomed));
    node->edges.clear();
  }
}

Tensor require_grad(const Tensor& t) {
  CHECK(is_float(t.dtype()), "require_grad: a ", t.dtype(), " tensor has no gradient");
  return t.with_meta(Ref<Meta>(new Leaf(t)));
}

Leaf& leaf_of(const Tensor& t, const char* caller) {
  CHECK(is_leaf(t), caller, "(): not a leaf");
  return static_cast<Leaf&>(*grad_meta(t));
}

Saved::Saved(const Tensor& t) : tensor_(is_leaf(t) ? t : t.detach()) {
  if (!t.defined()) return;
  version_ = t.storage()->version;
  // Tensors that recompute() keeps while it runs a segment again are short-lived and not counted.
  const bool kept = !is_leaf(t) && t.storage()->saved++ == 0 && grad_mode() && !replaying();
  if (kept) trace::count<"mem.saved_bytes">(int64_t(t.nbytes()));
}

Saved::~Saved() {
  if (tensor_.defined() && !is_leaf(tensor_)) --tensor_.storage()->saved;
}

const Tensor& Saved::operator()() const {
  CHECK(!tensor_.defined() || tensor_.storage()->version == version_,
        "backward: a tensor of shape ", tensor_.shape(),
        " that was saved for it has been written in place since");
  return tensor_;
}

bool detail::tracking() {
  if (!grad_mode()) trace::count<"grad.untracked_ops">();
  return grad_mode();
}

template <class Range> static Edges edges_of(const Range& inputs, const auto& tensor_in) {
  Edges edges;
  const auto tracked = [&](const auto& input) { return needs_grad(tensor_in(input)); };
  if (std::ranges::none_of(inputs, tracked) || !detail::tracking()) return edges;
  edges.reserve(inputs.size());
  for (const auto& input : inputs) edges.emplace_back(grad_meta(tensor_in(input)));
  if (OpLog* const log = op_log()) {
    std::vector<Operand>& operands = log->ops.emplace_back().inputs;
    for (const auto& input : inputs) {
      const Tensor& t = tensor_in(input);
      operands.emplace_back();
      if (!t.defined()) continue;
      const char* const layout = t.rank() == 4 ? format_of(t).name : "";
      operands.back() = {t.shape(), t.dtype(), true, is_leaf(t), grad_meta(t), layout};
    }
  }
  return edges;
}
Edges detail::edges_to(std::span<const Input> inputs) {
  return edges_of(inputs, [](const Input& input) -> const Tensor& { return *input.tensor; });
}
Edges detail::edges_to(std::span<const Tensor> inputs) {
  return edges_of(inputs, [](const Tensor& input) -> const Tensor& { return input; });
}

}  // namespace bellows
