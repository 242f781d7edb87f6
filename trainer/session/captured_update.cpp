#include <algorithm>
#include "autograd/amp.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "trainer/session/session.h"
#include "trainer/session/training_step.h"

namespace bellows {

// The first update fills slots and chooses kernels. The second update allocates the same memory as
// all later ones.
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
  Capture* const capture = tuned_later ? nullptr : capture_for(update);
  if (!capture) return body(update);
  for (const auto tensor : Batch::kTensors) {
    const Tensor &to = capture->input.whole().*tensor, &from = update.whole().*tensor;
    if (!from.defined() || to.bytes() == from.bytes()) continue;  // written by a feed
    copy_into(to, from);
    trace::count<"graph.copied_input_bytes">(int64_t(to.nbytes()));
  }
  if (capture->warm_ups < kWarmUps) {
    const PoolScope scope(pool_);
    ++capture->warm_ups;
    return body(capture->input);
  }
  if (!capture->graph) record(*capture, body);
  replay(*capture);
  return capture->losses;
}

CapturedUpdate::Capture* CapturedUpdate::capture_for(const Update& update) {
  const Batch& batch = update.whole();
  const bool usual =
      batch.lengths.defined() || batch.size() == session_.plan.data.loader.sampler.batch_size;
  if (!usual || batch.counts.weight != 1) return nullptr;
  const auto known = std::ranges::find_if(captures_, [&](const Capture& capture) {
    return capture.input.whole().x.shape() == batch.x.shape() &&
           capture.input.size() == update.size();
  });
  if (known != captures_.end()) return &*known;
  if (captures_.size() == kMostGraphs) {
    trace::count<"graph.uncaptured_shapes">();
    return nullptr;
  }
  Batch place = batch.lengths.defined() ? batch : session_.zeros_like_batches(batch.size());
  for (const auto tensor : Batch::kTensors)
    if (batch.lengths.defined() && (batch.*tensor).defined())
      place.*tensor = empty_like(batch.*tensor);
  captures_.push_back({Update(place, update.size())});
  session_.feed->write_into(captures_.front().input.whole());
  return &captures_.back();
}

// Casts of weights are recorded inside the graph, so each replay refreshes them. The exception is
// the 16-bit copies that a fused optimizer writes: the graph reads those of the previous update and
// writes those for the next replay.
void CapturedUpdate::record(Capture& capture, const Body& body) {
  const PoolScope scope(pool_);
  for (const NamedTensor& p : session_.parameters) {
    capture.read.push_back(amp::copy_of(p.tensor));
    amp::written(p.tensor, capture.read.back());
  }
  capture.graph =
      std::make_unique<Graph>(session_.device, [&] { capture.losses = body(capture.input); });
  for (const NamedTensor& p : session_.parameters)
    capture.written.push_back(amp::copy_of(p.tensor));
}

// A replay does not repeat the host's bookkeeping during capture, such as that weights have
// changed. Other code may have written the weights since the last replay (an evaluation of their
// averages), so the copies that the graph reads are refreshed first.
void CapturedUpdate::replay(Capture& capture) {
  const NamedTensors& parameters = session_.parameters;
  for (size_t i = 0; i < parameters.size(); ++i) amp::renew(parameters[i].tensor, capture.read[i]);
  capture.graph->launch();
  session_.group->graph_launched();
  for (size_t i = 0; i < parameters.size(); ++i)
    amp::written(parameters[i].tensor, capture.written[i]);
  for (const NamedTensor& b : session_.model->buffers()) b.tensor.raise_version();
}

}  // namespace bellows
