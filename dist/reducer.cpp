#include "dist/reducer.h"
#include <algorithm>
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "core/device/allocator.h"
#include "core/device/sync_guard.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"

namespace bellows {

void count_root_bytes(const ProcessGroup& group, size_t bytes) {
  if (group.rank() == 0) trace::count<"dist.root_bytes">(int64_t(bytes) * (group.world() - 1));
}

// Calls wait(), which waits for the other ranks, and adds its time to dist.exposed_wait_ns.
static void count_wait(const std::function<void()>& wait) {
  const int64_t begin = trace::now_ns();
  wait();
  trace::count<"dist.exposed_wait_ns">(trace::now_ns() - begin);
}

Reducer::Reducer(ProcessGroup& group, const DistOptions& options, const NamedTensors& parameters,
                 const NamedTensors& buffers)
    : group_(group), options_(options), dp_(!options.ddp && group.world() > 1) {
  for (const auto& [name, leaf] : parameters) {
    order_.insert(order_.begin(), parameters_.size());
    parameters_.push_back({name, leaf});
  }
  if (alone()) return;
  broadcast_from_root(group, parameters);
  broadcast_from_root(group, buffers);
  if (dp_) return;
  make_buckets();
  for (size_t i = 0; i < parameters_.size(); ++i)
    on_grad_ready(parameters_[i].leaf, [this, i](const Tensor&) { ready(i); });
}

Reducer::~Reducer() {
  for (const Parameter& p : parameters_) {
    on_grad_ready(p.leaf, nullptr);
    place_grad(p.leaf, {});
  }
}

// Allocates buckets outside the memory pool of captured updates, because they outlive those.
void Reducer::make_buckets() {
  const PoolScope outside(nullptr);
  std::vector<GradientSize> sizes;
  for (const size_t i : order_)
    sizes.push_back({parameters_[i].leaf.numel(), parameters_[i].leaf.dtype()});
  buckets_.clear();
  for (const BucketPlan& plan : plan_buckets(sizes, options_)) {
    const size_t n = plan.gradients.size();
    const Parameter &first = parameters_[order_[plan.gradients.front()]],
                    &last = parameters_[order_[plan.gradients.back()]];
    const Device device = first.leaf.device();
    const bool compressed = options_.compress && plan.dtype == DType::f32;
    Bucket& b = buckets_.emplace_back();
    b.name =
        cat("bucket ", buckets_.size() - 1, " (", first.name, n > 1 ? " to " + last.name : "", ")");
    b.missing = n;
    b.in_place = n == 1 && !options_.views && !compressed;
    if (!b.in_place) b.values = zeros({plan.numel}, plan.dtype, device);
    if (compressed) b.wire = Tensor({plan.numel}, DType::bf16, device);
    for (size_t k = 0; k < n; ++k) {
      b.members.push_back(order_[plan.gradients[k]]);
      Parameter& p = parameters_[b.members.back()];
      p.bucket = buckets_.size() - 1;
      p.place = {};
      if (b.in_place) continue;
      p.place = b.values.view(p.leaf.shape(), leaf_of(p.leaf).strides, plan.offsets[k]);
      if (options_.views) place_grad(p.leaf, p.place);
    }
  }
}

Reducer::PassScope Reducer::no_sync(bool on) {
  if (on && options_.no_sync) {
    trace::count<"dist.skipped_allreduces">(std::ssize(buckets_));
    return {pass_, Pass::hold};
  }
  if (!options_.no_sync && std::exchange(round_open_, !buckets_.empty())) finish_round();
  return {pass_, Pass::send};
}

// Buckets leave in their order, because all ranks must start the same collectives in one order.
void Reducer::ready(size_t parameter) {
  if (pass_ == Pass::test) return;
  Parameter& p = parameters_[parameter];
  INVARIANT(p.bucket >= next_, "reducer: backward reached ", p.name, " again after ",
            buckets_[p.bucket].name, " had left");
  p.reached = true;
  if (pass_ == Pass::hold || std::exchange(p.ready, true)) return;
  if (!std::exchange(p.recorded, true)) ready_order_.push_back(parameter);
  --buckets_[p.bucket].missing;
  if (!options_.overlap) return;
  for (; next_ < buckets_.size() && buckets_[next_].missing == 0; ++next_) {
    send(buckets_[next_]);
    trace::count<"dist.early_buckets">();
  }
}

static void set_zero_gradient(const Tensor& t) {
  Leaf& leaf = leaf_of(t);
  leaf.grad = Tensor(leaf.shape, leaf.strides, t.dtype(), t.device());
  fill(leaf.grad, 0);
}

// Brings the gradient of a parameter, or zeros, into its bucket. The gradient is there already
// (views), is copied, or its memory becomes the bucket's.
void Reducer::collect(Parameter& p, Bucket& bucket) {
  Tensor& grad = leaf_of(p.leaf).grad;
  if (bucket.in_place) {
    if (!grad.defined()) set_zero_gradient(p.leaf);
    bucket.values = flat(grad);
  } else if (!grad.defined()) {
    fill(p.place, 0);
  } else if (grad.bytes() != p.place.bytes()) {
    copy_into(p.place, grad);
    trace::count<"dist.grad_copy_bytes">(p.place.nbytes());
  } else {
    trace::count<"dist.view_grads">();
  }
  if (options_.views) grad = p.place;
}

void Reducer::send(Bucket& bucket) {
  for (const size_t i : bucket.members) collect(parameters_[i], bucket);
  const bool compressed = bucket.wire.defined();
  if (compressed) {
    copy_into(bucket.wire, bucket.values);
    trace::count<"dist.compressed_bytes">(bucket.wire.nbytes());
  }
  bucket.work =
      group_.all_reduce(compressed ? bucket.wire : bucket.values, Reduction::mean, bucket.name);
  trace::count<"dist.buckets">();
  if (bucket.members.size() > 1) trace::count<"dist.bucketed_grads">(std::ssize(bucket.members));
}

void Reducer::receive(Bucket& bucket) {
  count_wait([&] { std::exchange(bucket.work, {}).wait(); });
  if (bucket.wire.defined()) copy_into(bucket.values, bucket.wire);
  for (const size_t i : bucket.members) {
    Parameter& p = parameters_[i];
    p.ready = false;
    if (bucket.in_place || options_.views) continue;
    if (!leaf_of(p.leaf).grad.defined()) set_zero_gradient(p.leaf);
    copy_into(leaf_of(p.leaf).grad, p.place);
    trace::count<"dist.grad_copy_bytes">(p.place.nbytes());
  }
  bucket.missing = bucket.members.size();
}

// Sends the remaining buckets, and waits for all buckets.
void Reducer::finish_round() {
  const trace::Range range("wait_for_buckets");
  for (; next_ < buckets_.size(); ++next_) send(buckets_[next_]);
  for (Bucket& bucket : buckets_) receive(bucket);
  next_ = 0;
}

void Reducer::note_unused() {
  std::string names;
  for (Parameter& p : parameters_) {
    if (std::exchange(p.reached, false)) continue;
    trace::count<"dist.unused_gradients">();
    if (options_.find_unused && !std::exchange(p.mentioned, true))
      names += (names.empty() ? "" : ", ") + p.name;
  }
  if (!names.empty())
    messages_.push_back(cat("dist.find_unused: rank ", group_.rank(), ", step ", group_.step,
                            ": backward did not reach ", names));
}

// Without hooks, a gradient that zero_grad() has kept counts as reached.
void Reducer::fill_missing() {
  for (Parameter& p : parameters_) {
    p.reached = leaf_of(p.leaf).grad.defined();
    if (!p.reached) set_zero_gradient(p.leaf);
  }
  note_unused();
}

// Collects all gradients on rank 0 and averages them there.
void Reducer::return_gradients() {
  const int world = group_.world();
  for (const Parameter& p : parameters_) {
    const Tensor mine = flat(leaf_of(p.leaf).grad);
    const int64_t n = mine.numel();
    const bool root = group_.rank() == 0;
    const Tensor all = root ? Tensor({world * n}, mine.dtype(), mine.device()) : Tensor();
    count_wait([&] { group_.gather(mine, all, 0, p.name); });
    count_root_bytes(group_, mine.nbytes());
    if (!root) continue;
    fill(mine, 0);
    for (int r = 0; r < world; ++r) add_into(mine, all.view({n}, {1}, r * n), 1.0 / world);
  }
}

bool Reducer::wait() {
  if (dp_ || alone()) {
    fill_missing();
    if (dp_) return_gradients();
    return group_.rank() == 0;
  }
  finish_round();
  round_open_ = false;
  note_unused();
  if (options_.rebuild && !std::exchange(rebuilt_, true)) rebuild();
  return true;
}

void Reducer::end_update(DeviceStepState& state) {
  if (!dp_) return;
  NamedTensors sent;
  for (const Parameter& p : parameters_) {
    sent.push_back({p.name, p.leaf});
    count_root_bytes(group_, p.leaf.nbytes());
  }
  sent.push_back({"step state", state.tensor()});
  count_wait([&] { broadcast_from_root(group_, sent); });
}

// Gradients of this update stay in the old buckets until they are dropped; those that zero_grad()
// keeps move with the next bucket that leaves.
void Reducer::rebuild() {
  const SyncGuard expected(OnSync::ignore);
  for (const size_t i : order_)
    if (!parameters_[i].recorded) ready_order_.push_back(i);
  const Tensor order = tensor_of(std::vector<int64_t>(ready_order_.begin(), ready_order_.end()),
                                 {std::ssize(ready_order_)}, parameters_.front().leaf.device());
  group_.broadcast(order, 0, "order of readiness").wait();
  const Tensor known = to(Device::cpu, order);
  std::ranges::copy(known.data<int64_t>(), order_.begin());
  make_buckets();
  trace::count<"dist.rebuilds">();
}

}  // namespace bellows
