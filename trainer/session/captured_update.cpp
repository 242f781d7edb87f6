#include "trainer/session/captured_update.h"
#include "autograd/amp.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "trainer/session/session.h"

namespace bellows {

// The first update fills slots and chooses kernels. The second one allocates the same memory as all
// later ones.
static constexpr int64_t kWarmUps = 2;

CapturedUpdate::CapturedUpdate(Session& session)
    : session_(session), pool_(std::make_shared<MemoryPool>(session.device)) {
  CHECK(!session.plan.debug.anomaly,
        "cuda_graph: debug.anomaly looks at every gradient on the "
        "host, which a captured update cannot; write  debug.anomaly=false");
  const ProcessGroup& group = *session.group;
  CHECK(group.world() == 1 || group.on_streams(), "cuda_graph: the collectives of ",
        group.backend(),
        " run on the host, so no graph can capture an update of several ranks; "
        "write  toggles.cuda_graph: off  or give each rank a GPU of its own");
}

Tensors CapturedUpdate::run(const Update& update, const Body& body) {
  const bool tuned_later = session_.kernels().autotune < session_.plan.kernels.autotune;
  const Batch& batch = update.whole();
  const bool usual =
      batch.size() == session_.plan.data.loader.sampler.batch_size && batch.counts.weight == 1;
  if (tuned_later || !usual) return body(update);
  if (!input_) {
    input_.emplace(session_.zeros_like_batches(batch.size()), update.size());
    session_.feed->write_into(input_->whole());
  }
  receive(batch);
  if (warm_ups_ < kWarmUps) return warm_up(body);
  if (!graph_) capture(body);
  replay();
  return losses_;
}

// A feed may have written the batch there.
void CapturedUpdate::receive(const Batch& batch) {
  const Batch& place = input_->whole();
  for (const auto tensor : Batch::kTensors) {
    const Tensor &to = place.*tensor, &from = batch.*tensor;
    if (!from.defined() || to.bytes() == from.bytes()) continue;
    copy_into(to, from);
    trace::count<"graph.copied_input_bytes">(int64_t(to.nbytes()));
  }
}

Tensors CapturedUpdate::warm_up(const Body& body) {
  const PoolScope scope(pool_);
  ++warm_ups_;
  return body(*input_);
}

// Casts of weights are recorded inside the graph, so each replay refreshes them. The exception is
// the 16-bit copies that a fused optimizer writes: the graph reads those of the previous update and
// writes those for the next replay.
void CapturedUpdate::capture(const Body& body) {
  const PoolScope scope(pool_);
  const NamedTensors& parameters = session_.parameters;
  for (const NamedTensor& p : parameters) {
    copies_.push_back({.read = amp::copy_of(p.tensor), .written = {}});
    amp::written(p.tensor, copies_.back().read);
  }
  graph_ = std::make_unique<Graph>(session_.device, [&] { losses_ = body(*input_); });
  for (size_t i = 0; i < parameters.size(); ++i)
    copies_[i].written = amp::copy_of(parameters[i].tensor);
}

// A replay does not repeat the host's bookkeeping during capture, such as that weights have
// changed. Other code may have written the weights since the last replay (an evaluation of their
// averages), so the copies that the graph reads are refreshed first.
void CapturedUpdate::replay() {
  const NamedTensors& parameters = session_.parameters;
  for (size_t i = 0; i < parameters.size(); ++i) amp::renew(parameters[i].tensor, copies_[i].read);
  graph_->launch();
  session_.group->graph_launched();
  for (size_t i = 0; i < parameters.size(); ++i)
    amp::written(parameters[i].tensor, copies_[i].written);
  for (const NamedTensor& b : session_.model->buffers()) b.tensor.raise_version();
}

}  // namespace bellows
