#include "trainer/session/training_step.h"
#include "autograd/backward.h"
#include "core/base/scoped.h"
#include "core/base/trace.h"
#include "core/device/device_pool.h"
#include "core/device/timer.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "core/tensor/rng.h"
#include "core/tensor/safetensors.h"
#include "trainer/session/planted_load.h"
#include "trainer/session/session.h"

namespace bellows {

TrainingStep::TrainingStep(Session& session) : session_(session) {
  // In dp the host sends gradients and parameters in each update, which a graph cannot do.
  if (session.plan.train.cuda_graph && !session.by_root())
    captured_ = std::make_unique<CapturedUpdate>(session);
  if (!session.optimizer->may_skip()) return;
  written_ = session.loss_terms.sums();
  for (const NamedTensor& buffer : session.model->buffers()) written_.push_back(buffer.tensor);
  for (const Tensor& tensor : written_) kept_.push_back(empty_like(tensor));
}

void TrainingStep::prepare() {
  if (!session_.plan.train.dry_run) return;
  const PoolScope where_updates_allocate(captured_ ? captured_->pool() : nullptr);
  dry_run(session_);
}

Tensors TrainingStep::operator()(const Update& update) {
  const Kernels use(session_.kernels());
  const int64_t begin = trace::now_ns();
  const auto train = [this](const Update& now) { return train_on(now); };
  Tensors losses = captured_ ? captured_->run(update, train) : train_on(update);
  compute_until(session_.plan.sim, begin);
  if (losses.size() > 1) trace::count<"update.accumulated">();
  session_.tuning.end_update();
  lend_larger_blocks(session_.train_set->info().input.varies);
  return losses;
}

static BackwardOptions backward_options(const Session& s, const Batch& batch) {
  return {.seed = batch.share,
          .loss_scale = s.state->loss_scale(),
          .low_grads = !s.by_root() && s.optimizer->reads_low_grads()};
}

Tensors TrainingStep::train_on(const Update& update) {
  Session& s = session_;
  Tensors losses;
  copy_each(kept_, written_);  // keeps running statistics, if this update may be skipped
  for (const Batch& batch : update) {
    const auto quiet = s.reducer->no_sync(!batch.last);  // only the last micro-batch sends buckets
    const Tensor loss = s.loss_of(batch);
    backward(loss, backward_options(s, batch));  // also sends buckets
    losses.push_back(loss.detach());
  }
  if (s.reducer->wait()) {        // now this rank has the mean gradients of all ranks
    s.optimizer->step(*s.state);  // skips non-finite gradients if skip_nonfinite is on
    s.scaler->update();
    s.ema->update(s.state->get());
  }
  s.reducer->end_update(*s.state);
  copy_each(written_, kept_, s.state->get());  // undoes the writes if the update was skipped
  s.optimizer->zero_grad();
  return losses;
}

int64_t micro_batches(const Plan& plan, int64_t samples) {
  const int64_t most = plan.train.accumulate;
  const int64_t least = std::clamp<int64_t>(plan.data.loader.sampler.batch_size / most, 1, 2);
  return std::clamp<int64_t>(samples / least, 1, most);
}

// Tries a micro-batch of one sample, because only the layers know what they can train on.
void check_micro_batches(Session& session, int64_t step) {
  const int64_t batches = session.steps_per_epoch(), end = session.total_steps();
  const auto has_one_sample = [&](int64_t index) {
    const int64_t fewest = session.loader->sampler().fewest(index);
    return fewest / micro_batches(session.plan, fewest) <= 1;
  };
  const bool any = step < end && has_one_sample(0);
  const bool last = end / batches > step / batches && has_one_sample(batches - 1);
  if (!any && !last) return;
  try {
    dry_run(session, 1);
  } catch (const Error& error) {
    if (error.exit != Exit::usage) throw;
    const std::string why = error.what();
    fail(error.exit, "data.batch_size ", session.plan.data.loader.sampler.batch_size, ": ",
         any ? "a micro-batch" : "the last batch of an epoch", " has 1 sample",
         session.ranks.world > 1 ? " on a rank" : "", ", and the model cannot train on one (",
         why.substr(0, why.find(';')), "); ",
         any ? "raise data.batch_size or lower  toggles.gradient_accumulation"
             : "write  data.drop_last=true  or another data.batch_size");
  }
}

// Images of noise, because a search compares the values of kernels, and on zeros all agree. Lengths
// are the longest, tokens and targets 0.
static Batch batch_for_dry_run(const Session& session, int64_t images) {
  const Batch batch = session.zeros_like_batches(images);
  if (batch.x.dtype() == DType::i64 || batch.x.dtype() == DType::u8) return batch;
  for (int64_t i = 0; i < images; ++i) {
    const Tensor image = slice(batch, i, i + 1).x;
    const Tensor noise(image.shape(), DType::f32, image.device());
    fill_normal(noise, 0, 1, {.purpose = Purpose::dataset, .step = uint64_t(i)});
    copy_into(image, noise);
  }
  return batch;
}

double time_dry_run(Session& session, int64_t batch) {
  dry_run(session, batch);
  double fastest_s = std::numeric_limits<double>::infinity();
  for (int pass = 0; pass < 3; ++pass) {
    synchronize(current_stream(session.device));
    const int64_t begin = trace::now_ns();
    dry_run(session, batch);
    synchronize(current_stream(session.device));
    fastest_s = std::min(fastest_s, seconds_since(begin));
  }
  return fastest_s;
}

void dry_run(Session& session, int64_t batch) {
  if (batch == 0)
    batch = std::min(session.plan.data.loader.sampler.batch_size, session.loader->samples());
  trace::count<"alloc.dry_runs">();
  const Kernels use(session.kernels());
  const Scoped unchecked(anomaly().on, false);  // a model may have no finite gradient of noise
  const StepState before = session.state->read();
  const NamedTensors buffers = session.model->buffers(), kept = snapshot(buffers);
  const Update update(batch_for_dry_run(session, batch), micro_batches(session.plan, batch));
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
