#include "trainer/session/training_step.h"
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "core/tensor/safetensors.h"
#include "trainer/session/session.h"

namespace bellows {

TrainingStep::TrainingStep(Session& session) : session_(session) {
  // In dp the host sends what changes in an update, which a graph cannot.
  if (session.plan.train.cuda_graph && !session.by_root())
    captured_ = std::make_unique<CapturedUpdate>(session);
}

void TrainingStep::prepare() {
  if (!session_.plan.train.dry_run) return;
  const PoolScope where_updates_allocate(captured_ ? captured_->pool() : nullptr);
  dry_run(session_);
}

Tensors TrainingStep::operator()(const Update& update) {
  const Kernels use(session_.kernels());
  const auto train = [this](const Update& now) { return train_on(now); };
  Tensors losses = captured_ ? captured_->run(update, train) : train_on(update);
  if (losses.size() > 1) trace::count<"update.accumulated">();
  session_.tuning.end_update();
  return losses;
}

static BackwardOptions backward_options(const Session& s, const Batch& batch) {
  return {.seed = batch.share,
          .loss_scale = s.state->loss_scale(),
          .low_grads = !s.by_root() && s.optimizer->reads_low_grads()};
}

// Trains on 1 or N micro-batches. Their losses stay on the device until they are read.
Tensors TrainingStep::train_on(const Update& update) {
  Session& s = session_;
  Tensors losses;
  for (const Batch& batch : update) {
    const auto quiet = s.reducer->no_sync(!batch.last);  // only the last one sends buckets
    const Tensor loss = s.loss_of(batch);
    backward(loss, backward_options(s, batch));  // sends buckets meanwhile
    losses.push_back(loss.detach());
  }
  if (s.reducer->wait()) {        // now this rank has the mean gradients of all
    s.optimizer->step(*s.state);  // skips non-finite gradients if skip_nonfinite is on
    s.scaler->update();
    s.ema->update(s.state->get());
  }
  s.reducer->end_update(*s.state);
  s.optimizer->zero_grad();
  return losses;
}

void dry_run(Session& session) {
  dry_run(session,
          std::min(session.plan.data.loader.sampler.batch_size, session.loader->samples()));
}

void dry_run(Session& session, int64_t batch) {
  trace::count<"alloc.dry_runs">();
  const Kernels use(session.kernels());
  const StepState before = session.state->read();
  const NamedTensors buffers = session.model->buffers(), kept = snapshot(buffers);
  const Shape shape = with_rows(batch, session.loader->transforms().shape());
  const Update update(session.zeros_like_batches(shape), session.plan.train.accumulate);
  // The first pass runs all kernel searches, each of which releases the allocator's cached blocks.
  // A second pass allocates them again.
  const int passes = session.kernels().autotune == Autotune::benchmark ? 2 : 1;
  for (int pass = 0; pass < passes; ++pass)
    for (const Batch& batch : update) {
      const auto alone = session.reducer->pause();
      backward(session.loss_of(batch), backward_options(session, batch));
    }
  for (const NamedTensor& p : session.parameters) leaf_of(p.tensor).grad = {};
  for (size_t i = 0; i < buffers.size(); ++i) copy_into(buffers[i].tensor, kept[i].tensor);
  session.state->write(before);
}

}  // namespace bellows
