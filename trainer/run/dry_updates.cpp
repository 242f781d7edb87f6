#include <algorithm>
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "core/tensor/rng.h"
#include "core/tensor/safetensors.h"
#include "trainer/run/loop.h"
#include "trainer/session/evaluate.h"
#include "trainer/session/session.h"
#include "trainer/session/training_step.h"
#include "trainer/state/training_state.h"

namespace bellows {

// Not zeros, because a search compares a library's values with the plain kernel's.
static Batch random_batch(const Session& session, const Shape& image) {
  const int64_t most = session.plan.data.loader.sampler.batch_size;
  const Shape shape = with_rows(std::min(most, session.loader->samples()), image);
  const Batch batch = session.zeros_like_batches(shape);
  const Tensor values(shape, DType::f32, session.device);
  fill_normal(values, 0, 1, {.seed = session.plan.seed, .purpose = Purpose::test});
  copy_into(batch.x, values);
  return batch;
}

static void run_updates(Session& session, TrainingStep& step, int64_t epoch) {
  session.model->train(true);
  const Batch batch = random_batch(session, session.loader->transforms().shape(epoch));
  const Update update(batch, session.plan.train.accumulate);
  for (int64_t i = 0; i < session.plan.train.dry_updates; ++i) {
    step(update);
    trace::count<"update.dry">();
  }
}

static void run_evaluation(Session& session) {
  const InEvaluation mode(session);
  (*session.model)(random_batch(session, session.input).x);
}

void run_dry_updates(Session& session, TrainingStep& step, int64_t epoch) {
  const StepState before = session.state->read();
  const NamedTensors state = state_tensors(session), kept = snapshot(state);
  run_updates(session, step, epoch);
  run_evaluation(session);
  for (size_t i = 0; i < state.size(); ++i) copy_into(state[i].tensor.detach(), kept[i].tensor);
  session.state->write(before);
}

}  // namespace bellows
