// Toggles that need several ranks train LeNet on two, which are threads of this process: each
// leaves its footprint if and only if it is on, and the losses of both ranks differ by no more than
// it promises, alone and beside every toggle of the update. Single-process trials leave them out,
// because no_effect() does.
#include <gtest/gtest.h>
#include "autograd/backward.h"
#include "autograd/grad_scaler.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "core/tensor/rng.h"
#include "dist/reducer.h"
#include "models/module/rewrite.h"
#include "optim/schedule.h"
#include "tests/dist/thread_ranks.h"
#include "tests/plans.h"
#include "tests/toggles/trial.h"

using namespace bellows;

namespace {

constexpr int kRanks = 2, kUpdates = 4;

Plan plan_for(const Toggle& toggle) {
  Plan plan = tiny_plan();
  plan.dist.first_bucket_mb = 0.01;
  plan.dist.bucket_mb = 0.1;
  return with_proof(plan, toggle);
}

Batch batch_of(int rank) {
  Batch batch{.x = Tensor({8, 1, 28, 28}, DType::f32),
              .y = tensor_of<int64_t>({0, 1, 2, 3, 4, 5, 6, 7}, {8})};
  fill_normal(batch.x, 0, 1, {.seed = uint64_t(rank + 1)});
  return batch;
}

struct Trained {
  std::vector<double> losses = {};
  std::vector<float> weights = {};
};

// One rank, as Session and TrainingStep do it.
Trained train(ThreadGroup& group, const Plan& plan) {
  const auto state = std::make_shared<DeviceStepState>(Device::cpu);
  const ModulePtr model =
      plan.model.model.make({{.shape = {1, 28, 28},
                              .seed = plan.seed,
                              .state = state,
                              .vectorized = plan.model.vectorized,
                              .format = plan.model.channels_last ? kNHWC : kNCHW},
                             10,
                             {10}});
  rewrite(*model, plan.model.rewrites);
  model->name_all("");
  model->initialize(plan.seed);
  OptimizerOptions options = plan.optimizer;
  options.skip_nonfinite |= plan.amp.scales();
  Optimizer optimizer(options, model->parameters(), full({1}, 0.05, DType::f64));
  const GradScaler scaler(plan.amp.scales(), plan.amp.scaler, *state);
  Reducer reducer(group, plan.dist, model->parameters(), model->buffers());
  const Batch batch = batch_of(group.rank());
  const Kernels use(plan.kernels);
  Trained trained;
  for (int update = 0; update < kUpdates; ++update) {
    trained.losses.push_back(0);
    for (const Batch& part : Update(batch, plan.train.accumulate)) {
      const auto quiet = reducer.no_sync(!part.last);
      const Autocast precision(plan.amp.low());
      state->begin_forward();
      const Tensor loss = criterion((*model)(part.x), part.y, plan.loss);
      backward(loss, {.seed = part.share, .loss_scale = state->loss_scale()});
      trained.losses.back() += part.share * loss.item();
    }
    if (reducer.wait()) {
      optimizer.step(*state);
      scaler.update();
    }
    reducer.end_update(*state);
    optimizer.zero_grad();
  }
  for (const NamedTensor& p : model->parameters()) {
    const Tensor dense = contiguous(p.tensor);
    for (const float value : dense.data<float>()) trained.weights.push_back(value);
  }
  return trained;
}

// The losses of all ranks, update by update.
const Trial& tried_on_ranks(const Plan& plan) {
  static std::map<Values, Trial> done;
  const Values key = dump(plan);
  if (const auto found = done.find(key); found != done.end()) return found->second;
  const auto before = trace::counters();
  Trained of_rank[kRanks];
  on_ranks(kRanks, [&](ThreadGroup& group) { of_rank[group.rank()] = train(group, plan); });
  Trial trial;
  for (int i = 0; i < kUpdates; ++i) {
    double sum = 0;
    for (const Trained& trained : of_rank) sum += trained.losses.at(i);
    trial.losses.push_back(sum / kRanks);
  }
  // A gradient that was not reduced moves the mean of the losses less than rounding may.
  EXPECT_EQ(of_rank[0].weights, of_rank[1].weights) << "two ranks";
  trial.counters = trace::counters();
  for (const auto& [name, value] : before) trial.counters[name] -= value;
  return done.emplace(key, std::move(trial)).first->second;
}

bool needs_ranks(const Toggle& toggle) { return std::ranges::count(toggle.needs, "ranks") > 0; }

// True if the toggle sets options that train() reads.
bool is_of_the_update(const Toggle& toggle) {
  for (const auto& [key, owner] : option_owners())
    for (const char* group : {"model.", "optimizer.", "loss.", "amp.", "train.accumulate", "dist."})
      if (owner->name == toggle.name && key.starts_with(group)) return true;
  return false;
}

class TogglesOnRanks : public testing::TestWithParam<std::string> {
 protected:
  const Toggle& toggle = *find_toggle(GetParam());
  const Plan plan = plan_for(toggle);
};
Names names_needing_ranks() {
  Names names;
  for (const Toggle& toggle : toggles())
    if (needs_ranks(toggle)) names.push_back(toggle.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Of, TogglesOnRanks, testing::ValuesIn(names_needing_ranks()),
                         [](const auto& info) { return info.param; });

}  // namespace

TEST_P(TogglesOnRanks, LeaveTheirFootprintAndKeepTheirPromise) {
  for (const std::string& value : toggle.values) {
    const Trial &plain = tried_on_ranks(plan),
                &changed = tried_on_ranks(switched(plan, toggle, value));
    const auto found = changed.counters.find(toggle.footprint);
    const int64_t footprint = found == changed.counters.end() ? 0 : found->second;
    EXPECT_EQ(footprint > 0, value != toggle.off()) << toggle.footprint << ": " << footprint;
    EXPECT_EQ(compare(plain, changed, closeness(toggle, plain, changed)), "") << value;
    const bool on = value != toggle.off();
    EXPECT_EQ(on ? gain_complaint(toggle, plain, changed) : "", "") << value;
  }
}

TEST_P(TogglesOnRanks, KeepTheirPromiseBesideThoseOfTheUpdate) {
  int pairs = 0;
  for (const Toggle& other : toggles()) {
    const bool runs = needs_ranks(other) || can_run(other, DeviceChoice::cpu);
    if (&other == &toggle || !runs || !is_of_the_update(other)) continue;
    const Trial& plain = tried_on_ranks(plan);
    const Trial& both = tried_on_ranks(
        switched(switched(plan, toggle, toggle.values.back()), other, other.values.back()));
    const Closeness allowed = weaker(closeness(toggle, plain, both), closeness(other, plain, both));
    EXPECT_EQ(compare(plain, both, allowed), "") << other.name;
    ++pairs;
  }
  EXPECT_GT(pairs, 10);
}
