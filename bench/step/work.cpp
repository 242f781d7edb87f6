#include <time.h>
#include <algorithm>
#include <deque>
#include "bench/step/step.h"
#include "core/copy.h"
#include "core/rng.h"
#include "core/timer.h"
#include "core/trace.h"

namespace bellows {

static Device device_of(const Plan& plan) {
  const Device device = plan.device == DeviceChoice::cuda ? Device::cuda : Device::cpu;
  CHECK(device_count(device) > 0, "--device cuda: ", why_no_device(device));
  configure_allocator(device, plan.allocator);
  return device;
}

static ModulePtr make_model(const Plan& plan, const Pictures& pictures,
                            const std::shared_ptr<DeviceStepState>& state) {
  ModulePtr model = plan.model.model.make({{.shape = pictures.shape,
                                            .seed = plan.seed,
                                            .state = state,
                                            .vectorized = plan.model.vectorized,
                                            .device = state->device(),
                                            .format = plan.model.channels_last ? kNHWC : kNCHW},
                                           pictures.classes});
  fuse(*model, plan.model.fuse);
  model->name_all("");
  model->initialise(plan.seed);
  model->train(true);
  return model;
}

static Shape batch_of(int64_t batch, const Pictures& pictures) {
  Shape shape{batch};
  for (const int64_t dim : pictures.shape) shape.push_back(dim);
  return shape;
}

static Tensor labels_of(int64_t batch, const Pictures& pictures) {
  const Tensor labels({batch}, DType::i64);
  for (int64_t i = 0; i < batch; ++i) labels.data<int64_t>()[i] = i * 7 % pictures.classes;
  return labels;
}

TrainingStep::TrainingStep(const Plan& plan, const Pictures& pictures, int64_t batch)
    : plan_(plan),
      state_(std::make_shared<DeviceStepState>(device_of(plan))),
      model_(make_model(plan, pictures, state_)),
      optimizer_(plan.optimizer, model_->parameters(),
                 full({1}, plan.optimizer.rule.make().lr, DType::f64)),
      scaler_(plan.amp.scales(), plan.amp.scaler, *state_),
      x_(batch_of(batch, pictures), DType::f32, device()),
      labels_(to(device(), labels_of(batch, pictures))) {
  fill_normal(x_, 0, 1, {.seed = plan.seed, .purpose = Purpose::test});
  if (plan.data.loader.channels_last) x_ = contiguous(x_, kNHWC);
}

Tensor TrainingStep::forward() {
  state_->begin_forward();
  const Autocast cast(plan_.amp.low());
  return criterion((*model_)(x_), labels_, plan_.loss);
}

void TrainingStep::operator()() {
  const Tensor loss = forward();
  backward(loss, {.state = scaler_.state()});
  loss_ = loss.detach();
  optimizer_.step(*state_);
  scaler_.update();
  optimizer_.zero_grad();
}

// ---- clocks

static double cpu_ms() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) * 1e3 + double(t.tv_nsec) * 1e-6;
}
static double wall_ms() { return double(trace::now_ns()) * 1e-6; }

Times time_steps(TrainingStep& step, int64_t steps, double seconds) {
  const Stream stream = current_stream(step.device());
  Times times;
  std::deque<Moment> passed;  // a moment does not move
  synchronize(stream);
  const double begin = wall_ms();
  passed.emplace_back(stream);
  while (int64_t(passed.size()) <= steps || wall_ms() - begin < seconds * 1e3) {
    const double cpu = cpu_ms();
    step();
    passed.emplace_back(stream);
    times.cpu_ms.push_back(cpu_ms() - cpu);
  }
  synchronize(stream);
  times.wall_ms = wall_ms() - begin;
  for (size_t i = 1; i < passed.size(); ++i) times.ms.push_back(passed[i].ms_since(passed[i - 1]));
  return times;
}

double quantile(std::vector<double>& values, double q) {
  const auto at = values.begin() + int64_t(q * double(values.size() - 1));
  std::ranges::nth_element(values, at);
  return *at;
}

}  // namespace bellows
