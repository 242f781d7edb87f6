#include "trainer/verbs/step_work.h"
#include "trainer/session/session.h"
#include "trainer/session/training_step.h"

namespace bellows {

// Counts one read of each parameter, gradient and buffer (f32), and one write of parameters,
// buffers and 16-bit copies. A check for finite gradients, or their norm, reads them again.
Cost work_of_update(const Session& session) {
  double parameters = 0, buffers = 0;
  for (const NamedTensor& p : session.parameters) parameters += double(p.tensor.nbytes());
  for (const NamedTensor& b : session.optimizer->state()) buffers += double(b.tensor.nbytes());
  const OptimizerOptions& o = session.plan.optimizer;
  const double checks = o.clip_norm > 0 || session.plan.amp.scales() ? parameters : 0;
  const double copies = session.plan.amp.low() == DType::f32 ? 0 : parameters / 2;
  return {0, 3 * parameters + 2 * buffers + copies + checks};
}

// Extrapolates the work of 2 and 4 samples to `batch`: weights do not grow with the batch.
static Cost scaled(const Cost& two, const Cost& four, int64_t batch) {
  const double steps = double(batch) / 2 - 1;
  return {two.flop + steps * (four.flop - two.flop), two.bytes + steps * (four.bytes - two.bytes)};
}

static std::vector<RecordedOp> recorded(Session& session, TrainingStep& train, int64_t rows) {
  const Update update(session.zeros_like_batches(rows), 1);
  train(update);  // the first update also makes buffers
  OpLog log;
  train(update);
  return log.ops;
}

Cost work_of_step(Plan plan) {
  const int64_t batch = plan.data.loader.sampler.batch_size;
  plan.train.cuda_graph = false;  // a replay records no ops
  plan.train.accumulate = 1;
  plan.kernels.autotune = Autotune::heuristic;
  Session session(plan);
  TrainingStep train(session);
  session.model->train(true);
  const std::vector<RecordedOp> two = recorded(session, train, 2),
                                four = recorded(session, train, 4);
  CHECK(two.size() == four.size(), "sweep: ", two.size(), " ops on two samples, ", four.size(),
        " on four; the ops of this model depend on the batch");

  Cost sum = scaled({0, gradient_sum_bytes(two)}, {0, gradient_sum_bytes(four)}, batch);
  for (size_t i = 0; i < two.size(); ++i) {
    const OpWork a = work_of(two[i]), b = work_of(four[i]);
    sum += scaled(a.forward, b.forward, batch);
    sum += scaled(a.backward, b.backward, batch);
  }
  sum += work_of_update(session);
  return sum;
}

}  // namespace bellows
