#include "autograd/backward.h"
#include <cmath>
#include "core/base/trace.h"
#include "core/device/parallel.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"

namespace bellows {

namespace {

struct Pass {
  uint64_t id;
  // Tensors whose gradient is complete, so their node may run. A heap with the latest node first:
  // nodes run in the reverse order of forward, so sums of contributions are reproducible.
  std::vector<Ref<Node>> ready;
};

// State of the pass that runs. A closure may run a pass of its own (autograd/recompute.cpp).
thread_local bool low_grads = false;

bool earlier(const Ref<Node>& a, const Ref<Node>& b) { return a->order < b->order; }

}  // namespace

// Counts the contributions ("shares") that each reachable tensor's gradient will receive. Counted
// per pass: a leaf may have consumers in other graphs, and its gradient is final once those of this
// graph have contributed.
static Pass plan_pass(GradMeta* root) {
  static std::atomic<uint64_t> passes{0};
  Pass pass{++passes, {}};
  std::vector<GradMeta*> reached;
  const auto expect = [&](GradMeta* meta) {
    if (meta->pass != pass.id) {
      meta->pass = pass.id;
      meta->shares = 0;
      if (meta->leaf) static_cast<Leaf*>(meta)->place_given = false;
      meta->dy = meta->more = {};
      reached.push_back(meta);
    }
    ++meta->shares;
  };
  expect(root);
  while (!reached.empty()) {
    const Node* const node = node_of(reached.back());
    reached.pop_back();
    if (!node) continue;
    CHECK(!node->released(), "backward(): an earlier pass has released ", node->op,
          "; give that one {.retain_graph = true}");
    for (const Edge& edge : node->edges)
      if (edge) expect(edge.get());
  }
  return pass;
}

// Returns t with these strides, in a storage that nothing else references. Copies t only if
// necessary.
static Tensor own(Tensor&& t, const Strides& strides) {
  if (t.storage()->references() == 1 && t.is_dense()) return laid_out(t, strides);
  const Tensor y(t.shape(), strides, t.dtype(), t.device());
  copy_into(y, t);
  return y;
}

// A leaf's gradient owns its storage and has the leaf's strides. `a + b` sends the same dy to both
// inputs; if both kept it, clipping in place would scale it twice. So a dy is copied unless nothing
// else refers to its storage.
static void finish(Leaf& leaf) {
  Tensor dy = std::move(leaf.dy);
  if (!dy.defined()) return;
  if (leaf.grad.defined()) {
    if (leaf.grad.dtype() != dy.dtype()) leaf.grad = cast(leaf.grad, dy.dtype());
    add_into(leaf.grad, laid_out(dy, leaf.grad.strides()));
  } else if (leaf.grad_place.defined()) {
    if (dy.storage() != leaf.grad_place.storage() || dy.offset() != leaf.grad_place.offset()) {
      copy_into(leaf.grad_place, dy);
      trace::count<"grad.place_copy_bytes">(dy.nbytes());
    }
    leaf.grad = leaf.grad_place;
  } else {
    leaf.grad = own(std::move(dy), leaf.strides);
  }
  if (leaf.hook) leaf.hook(leaf.grad);
}

// Returns a + b in b's dtype, in place if nothing else refers to a's storage. a may be in 16 bits
// (see takes_low_grad).
static Tensor sum(Tensor&& a, const Tensor& b) {
  if (a.dtype() != b.dtype()) a = cast(a, b.dtype());
  const bool mine = a.is_dense() && a.storage()->references() == 1;
  const Tensor y = mine ? a : empty_like(a);
  if (!mine) copy_into(y, a);
  add_into(y, laid_out(b, y.strides()));
  return y;
}

// True if the node adds its last share g to the sum of the others itself.
static bool adds_itself(GradMeta& to, const Tensor& g) {
  const Node* const node = node_of(&to);
  return node && node->adds() && to.shares == 1 && to.dy.dtype() == g.dtype();
}

// Adds g to the gradient of `to`. An undefined g (no gradient) still counts as a share, because
// `to` becomes ready when its last share arrives.
static void send(Pass& pass, const Edge& to, Tensor&& g, const char* op) {
  if (!to) return;
  if (g.defined()) {
    CHECK(g.shape() == to->shape, op, ": gradient has shape ", g.shape(), ", its input ",
          to->shape);
    if (!to->dy.defined())
      to->dy = std::move(g);
    else if (adds_itself(*to, g))
      to->more = std::move(g);
    else
      to->dy = sum(std::move(to->dy), g);
  }
  if (--to->shares > 0) return;
  if (to->leaf) return finish(static_cast<Leaf&>(*to));
  pass.ready.emplace_back(node_of(to.get()));
  std::push_heap(pass.ready.begin(), pass.ready.end(), earlier);
}

static void refuse_anomaly(const Node& node, const Grads& grads) {
  for (size_t i = 0; i < grads.size(); ++i)
    if (node.edges[i] && grads[i].defined() && !all_finite(grads[i]))
      fail(Exit::numeric, "anomaly: ", node.op, " in module '", node.site->path, "' gave input ", i,
           " a gradient that is not finite, at step ", anomaly().step);
}

static void run(Pass& pass, Node& node) {
  Tensor dy = std::move(node.dy), more = std::move(node.more);
  const Kernels use(node.kernels);
  const ModuleScope at(*node.site);
  const trace::Range range(node.op);
  Grads grads = dy.defined() ? node.run(dy, more) : Grads(node.edges.size());
  dy = more = {};  // a leaf keeps a gradient that nothing else refers to, instead of a copy
  INVARIANT(grads.size() == node.edges.size(), node.op, ": backward gave ", grads.size(),
            " gradients for ", node.edges.size(), " inputs");
  if (anomaly().on) refuse_anomaly(node, grads);
  for (size_t i = 0; i < grads.size(); ++i) {
    Tensor g = std::move(grads[i]);
    send(pass, node.edges[i], std::move(g), node.op);
  }
}

// Returns d loss / d loss, in the loss's shape and dtype. Without micro-batches this is the loss
// scale itself, which costs no launch.
static Tensor seed_of(const Tensor& loss, const BackwardOptions& options) {
  if (!options.loss_scale.defined()) return full(loss.shape(), options.seed, loss);
  const Tensor scale = cast(options.loss_scale, loss.dtype()).view_as(loss.shape());
  if (options.seed == 1) return scale;
  const Tensor seed = full(loss.shape(), 0, loss);
  add_into(seed, scale, options.seed);
  return seed;
}

void backward(const Tensor& loss, const BackwardOptions& options) {
  CHECK(loss.numel() == 1, "backward() starts from a scalar, got ", loss.shape());
  CHECK(needs_grad(loss), "backward(): nothing upstream of this tensor requires grad");
  const trace::Range range("backward");
  const NoGrad guard;
  const Scoped precision(low_grads, options.low_grads);
  Pass pass = plan_pass(grad_meta(loss));
  send(pass, Edge(grad_meta(loss)), seed_of(loss, options), "backward");
  while (!pass.ready.empty()) {
    std::pop_heap(pass.ready.begin(), pass.ready.end(), earlier);
    const Ref<Node> next = std::move(pass.ready.back());
    pass.ready.pop_back();
    run(pass, *next);
    if (options.retain_graph) continue;
    next->release();
    next->edges.clear();
  }
}

const Tensor& grad(const Tensor& leaf) { return leaf_of(leaf, "grad").grad; }

void zero_grad(std::span<const Tensor> leaves, bool set_to_none) {
  for (const Tensor& leaf : leaves) {
    Tensor& g = leaf_of(leaf, "zero_grad").grad;
    if (!g.defined()) continue;
    if (set_to_none) {
      trace::count<"grad.dropped">();
      g = {};
    } else {
      trace::count<"grad.memsets">();
      fill(g, 0);
    }
  }
}

void on_grad_ready(const Tensor& leaf, GradHook hook) {
  leaf_of(leaf, "on_grad_ready").hook = std::move(hook);
}

void place_grad(const Tensor& leaf, const Tensor& place) {
  Leaf& meta = leaf_of(leaf, "place_grad");
  const bool alike = place.shape() == leaf.shape() && place.dtype() == leaf.dtype();
  CHECK(!place.defined() || (alike && place.is_dense()), "place_grad(): a place of ", place.shape(),
        " in ", place.dtype(), " for a leaf of ", leaf.shape(), " in ", leaf.dtype());
  meta.grad_place = place;
}

Tensor grad_out(const Tensor& input) {
  if (is_leaf(input)) {
    Leaf& leaf = leaf_of(input);
    const bool first = !leaf.grad.defined() && !leaf.dy.defined() && !leaf.place_given;
    if (leaf.grad_place.defined() && first) {
      leaf.place_given = true;
      return leaf.grad_place.detach();
    }
  }
  return empty_like(input);
}

bool takes_low_grad(const Tensor& leaf) {
  const Leaf& meta = leaf_of(leaf);
  const bool first = !meta.grad.defined() && !meta.dy.defined();
  return low_grads && first && !meta.hook && !meta.grad_place.defined();
}

Anomaly& anomaly() {
  static Anomaly state;
  return state;
}

bool all_finite(const Tensor& t) {
  const Tensor dense = to(Device::cpu, contiguous(t));
  return visit_stored(t.dtype(), [&]<class T>(T) {
    return parallel_sum(t.numel(), 16384, [&](int64_t b, int64_t e) {
             int64_t bad = 0;
             for (int64_t i = b; i < e; ++i) bad += !std::isfinite(Acc<T>(dense.ptr<T>()[i]));
             return double(bad);
           }) == 0;
  });
}

}  // namespace bellows
