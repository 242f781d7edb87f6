#include "autograd/record.h"
#include "core/trace.h"

namespace bellows {

bool& grad_mode() {
  static thread_local bool on = true;
  return on;
}

Node::Node(const char* op, Edges edges)
    : op(op), edges(std::move(edges)), site(current_site()), kernels(kernel_options()) {
  static std::atomic<uint64_t> next{0};
  order = next.fetch_add(1, std::memory_order_relaxed);
}

// Frees what only this node kept alive, one node after the other: the destructors of a long chain
// would call each other until the stack is full.
GradMeta::~GradMeta() {
  std::vector<Node*> doomed;
  if (node) doomed.push_back(node);
  while (!doomed.empty()) {
    Node* const last = doomed.back();
    doomed.pop_back();
    last->release();  // first: the inputs that it captured live on through the edges
    while (!last->edges.empty()) {
      const Edge input = std::move(last->edges.back());
      last->edges.pop_back();
      if (input && input->references() == 1 && input->node)
        doomed.push_back(std::exchange(input->node, nullptr));
    }
    delete last;
  }
}

Tensor require_grad(const Tensor& t) {
  CHECK(is_float(t.dtype()), "require_grad: a ", t.dtype(), " tensor has no gradient");
  return t.with_meta(Ref<Meta>(new GradMeta(t.shape(), nullptr)));
}

bool is_leaf(const Tensor& t) { return needs_grad(t) && !grad_meta(t)->node; }

static trace::Counter& saved_bytes() {
  static trace::Counter& counter = trace::counter("mem.saved_bytes");
  return counter;
}

Saved::Saved(const Tensor& t) : tensor_(is_leaf(t) ? t : t.detach()) {
  if (!t.defined()) return;
  version_ = t.storage()->version;
  if (!is_leaf(t) && t.storage()->saved++ == 0 && grad_mode())
    saved_bytes().add(t.storage()->size());
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

Edges detail::edges_to(std::span<const Tensor> inputs) {
  static trace::Counter& untracked = trace::counter("grad.untracked_ops");
  Edges edges;
  if (std::ranges::none_of(inputs, needs_grad)) return edges;
  if (!grad_mode()) {
    untracked.add();
    return edges;
  }
  edges.reserve(inputs.size());
  for (const Tensor& input : inputs) edges.push_back(Edge(grad_meta(input)));
  return edges;
}

// A new handle, so a closure that saved y does not own the node it belongs to.
Tensor detail::attach(const Tensor& y, Node* node) {
  static trace::Counter& nodes = trace::counter("graph.nodes");
  nodes.add();
  return y.with_meta(Ref<Meta>(new GradMeta(y.shape(), node)));
}

}  // namespace bellows
