// The source's training loop (S1:56), on the engine alone: data loader, model, AMP, GradScaler,
// accumulation and ranks. A line of its Paddle code stands above ours. C1: gradients are cleared.
//   build/loop   or   torchrun --standalone --nproc-per-node 2 --no-python build/loop
#include <cstdio>
#include "autograd/backward.h"
#include "core/config/config.h"
#include "core/config/yaml.h"
#include "dist/reducer.h"
#include "dist/rendezvous/rendezvous.h"
#include "models/module/build.h"
#include "plan/plan.h"

using namespace bellows;

int main() {
  const auto yaml = "{data.train_size: 3840, amp.dtype: fp16, dist.ddp: true}";
  Plan plan = load(Plan{}, parse_yaml(yaml, "loop.cpp"));
  const Ranks& ranks = this_rank(plan.dist);
  const auto store = ranks.world > 1 ? meet(ranks, plan.dist) : nullptr;
  const auto group = plan.dist.backend.make({ranks, store, Device::cpu, plan.dist});
  const DatasetPtr digits = plan.data.dataset.make({Split::train});
  Loader loader(digits, plan.data.transforms, plan.data.loader, plan.seed,
                {ranks.rank, ranks.world});
  const auto state = std::make_shared<DeviceStepState>(Device::cpu);
  // model = SimpleNet(input_size, output_size)
  const DatasetInfo& info = digits->info();
  const ModulePtr model = plan.model.model.make(
      {{loader.transforms().shape(), plan.seed, state, false}, info.classes, info.output()});
  model->name_all("");
  model->initialize(plan.seed);
  const NamedTensors parameters = model->parameters();
  // optimizer = paddle.optimizer.SGD(learning_rate=0.0001, parameters=model.parameters())
  plan.optimizer.skip_nonfinite = true;
  Optimizer optimizer(plan.optimizer, parameters, full({1}, 0.05, DType::f64));
  // scaler = paddle.amp.GradScaler(init_loss_scaling=1024)
  const GradScaler scaler(true, {.init_scale = 1024}, *state);
  Reducer reducer(*group, plan.dist, parameters, model->buffers());
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    loader.start(epoch);
    double sum = 0;
    // for i, (data, label) in enumerate(datas):
    for (Batch batch; loader.next(batch);) {
      for (const Batch& part : Update(batch, 2)) {  // accumulates the gradients of two halves
        const auto quiet = reducer.no_sync(!part.last);
        // with paddle.amp.auto_cast(): output = model(data); loss = mse(output, label)
        const Autocast precision(plan.amp.low());
        const Tensor loss = criterion((*model)(part.x), part.y, plan.loss);
        // scaled = scaler.scale(loss); scaled.backward()
        backward(loss, {.seed = part.share, .loss_scale = state->loss_scale()});
        sum += loss.item() * part.fraction;
      }
      // scaler.minimize(optimizer, scaled)
      reducer.wait();
      optimizer.step(*state);
      scaler.update();
      optimizer.zero_grad();  // optimizer.clear_grad()
    }
    std::printf("rank %d, epoch %d: loss %.4f\n", ranks.rank, int(epoch) + 1,
                sum / double(loader.batches()));
  }
}
