#include "trainer/session/training_step.h"
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "core/device/adaptive_threads.h"
#include "core/tensor/copy.h"
#include "core/tensor/safetensors.h"

namespace bellows {

TrainingStep::TrainingStep(Session& session)
    : session_(session), tuning_(session.plan.train, session.plan.kernels) {
  if (session.plan.train.cuda_graph) captured_ = std::make_unique<CapturedUpdate>(session);
}

void TrainingStep::prepare() {
  if (!session_.plan.train.dry_run) return;
  const Kernels use(kernels());
  const PoolScope where_updates_allocate(captured_ ? captured_->pool() : nullptr);
  dry_run(session_);
}

Tensors TrainingStep::operator()(const Batch& batch) {
  static trace::Counter& accumulated = trace::counter("update.accumulated");
  adapt_threads();
  const Kernels use(kernels());
  const auto train = [this](const Update& update) { return train_on(update); };
  Tensors losses = captured_ ? captured_->run(batch, train)
                             : train(Update(batch, session_.plan.train.accumulate));
  if (losses.size() > 1) accumulated.add();
  tuning_.end_update();
  return losses;
}

// Trains on 1 or N micro-batches. Their losses stay on the device until they are read.
Tensors TrainingStep::train_on(const Update& update) {
  Session& s = session_;
  Tensors losses;
  for (const Batch& batch : update) {
    const auto quiet = s.reducer.no_sync(!batch.last);  // only the last one sends buckets
    const Tensor loss = s.loss_of(batch);
    backward(loss, {.seed = batch.share, .state = s.scaler.state()});  // buckets are sent meanwhile
    losses.push_back(loss.detach());
  }
  s.reducer.wait();            // now every rank has the same gradients
  s.optimizer.step(*s.state);  // skips non-finite gradients if skip_nonfinite is on
  s.scaler.update();
  s.ema.update(s.state->get());
  s.optimizer.zero_grad();
  return losses;
}

// Returns an update of zeros in the largest batch size, split as in training.
static Update largest_update(const Session& session) {
  const int64_t n = std::min(session.plan.data.loader.batch_size, session.loader.samples());
  const Shape shape = with_rows(n, session.loader.transforms().shape());
  return {session.zeros_like_batches(shape), session.plan.train.accumulate};
}

void dry_run(Session& session) {
  trace::counter("alloc.dry_runs").add();
  const StepState before = session.state->read();
  const NamedTensors buffers = session.model->buffers(), kept = snapshot(buffers);
  const trace::Counter& searches = trace::counter("autotune.searches");
  for (int64_t searched = -1; searched != searches.value();) {
    searched = searches.value();  // each search releases the allocator's cached blocks
    for (const Batch& batch : largest_update(session)) {
      const auto quiet = session.reducer.no_sync(true);
      backward(session.loss_of(batch), {.seed = batch.share, .state = session.scaler.state()});
    }
  }
  for (const NamedTensor& p : session.parameters) leaf_of(p.tensor).grad = {};
  for (size_t i = 0; i < buffers.size(); ++i) copy_into(buffers[i].tensor, kept[i].tensor);
  session.state->write(before);
}

}  // namespace bellows
