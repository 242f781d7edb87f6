#include "autograd/record.h"
#include "core/base/trace.h"

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

// Frees the nodes that only this one kept alive, in a loop: nested destructors of a long chain
// would overflow the stack.
GradMeta::~GradMeta() {
  Node* doomed = node;
  while (doomed) {
    Node* const last = doomed;
    doomed = last->next_doomed;
    last->release();  // first, so that captured inputs are referenced by the edges only
    while (!last->edges.empty()) {
      const Edge input = std::move(last->edges.back());
      last->edges.pop_back();
      if (!input || input->references() > 1 || !input->node) continue;
      input->node->next_doomed = doomed;
      doomed = std::exchange(input->node, nullptr);
    }
    delete last;
  }
}

Tensor require_grad(const Tensor& t) {
  CHECK(is_float(t.dtype()), "require_grad: a ", t.dtype(), " tensor has no gradient");
  return t.with_meta(Ref<Meta>(new GradMeta(t, nullptr)));
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

bool detail::tracking() {
  static trace::Counter& untracked = trace::counter("grad.untracked_ops");
  if (!grad_mode()) untracked.add();
  return grad_mode();
}

template <class Range> static Edges edges_of(const Range& inputs, const auto& tensor_in) {
  Edges edges;
  const auto tracked = [&](const auto& input) { return needs_grad(tensor_in(input)); };
  if (std::ranges::none_of(inputs, tracked) || !detail::tracking()) return edges;
  edges.reserve(inputs.size());
  for (const auto& input : inputs) edges.emplace_back(grad_meta(tensor_in(input)));
  return edges;
}
Edges detail::edges_to(std::span<const Input> inputs) {
  return edges_of(inputs, [](const Input& input) -> const Tensor& { return *input.tensor; });
}
Edges detail::edges_to(std::span<const Tensor> inputs) {
  return edges_of(inputs, [](const Tensor& input) -> const Tensor& { return input; });
}

// Returns a new handle of y that owns the node. A handle of y saved in the node's own closure has
// no history, so there is no reference cycle.
Tensor detail::attach(Tensor y, Node* node) {
  static trace::Counter& nodes = trace::counter("graph.nodes");
  nodes.add();
  Ref<Meta> meta(new GradMeta(y, node));
  return std::move(y).with_meta(std::move(meta));
}

}  // namespace bellows
