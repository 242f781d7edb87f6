// Our LeNet training step, timed as the peer's is (peers/torch_step.py): forward, cross-entropy,
// backward, SGD (momentum 0.9, decay 1e-4), on one batch that is already in memory. One JSON line.
//
//   bench_lenet --batch 64 --threads 1
//   bench_lenet --batch 64 --threads 1 --ops             median us of each op, on stderr
//   bench_lenet --batch 64 --threads 1 --no-batch-lanes  without one optimization
#include <fmt/format.h>
#include <time.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include "autograd/backward.h"
#include "core/rng.h"
#include "core/threads.h"
#include "core/trace.h"
#include "models/criterion.h"
#include "models/fuse.h"
#include "models/module.h"
#include "optim/optimizer.h"
#include "optim/sgd.h"

using namespace bellows;

namespace {

struct Arguments {
  int64_t batch = 64;
  int threads = 1, warmup = 20;
  double seconds = 5;
  bool ops = false;
  bool vendor = true, batch_lanes = true, fused_loss = true, fused_optimizer = true, caching = true;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  CLI::App app("LeNet-5's training step");
  app.add_option("--batch", a.batch);
  app.add_option("--threads", a.threads);
  app.add_option("--warmup", a.warmup);
  app.add_option("--seconds", a.seconds);
  app.add_flag("--ops", a.ops);
  app.add_flag("--vendor,!--no-vendor", a.vendor);
  app.add_flag("--batch-lanes,!--no-batch-lanes", a.batch_lanes);
  app.add_flag("--fused-loss,!--no-fused-loss", a.fused_loss);
  app.add_flag("--fused-optimizer,!--no-fused-optimizer", a.fused_optimizer);
  app.add_flag("--caching,!--no-caching", a.caching);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return a;
}

class Step {
 public:
  explicit Step(const Arguments& a)
      : state_(std::make_shared<DeviceStepState>(Device::cpu)),
        model_(make_model(a)),
        optimizer_(sgd(a), model_->parameters(), full({1}, 0.01, DType::f64)),
        x_({a.batch, 1, 28, 28}, DType::f32),
        labels_({a.batch}, DType::i64),
        loss_{.fused = a.fused_loss} {
    const Philox rng({.seed = 1, .purpose = Purpose::test});
    for (int64_t i = 0; i < x_.numel(); ++i) x_.data<float>()[i] = float(rng.normal(i));
    for (int64_t i = 0; i < a.batch; ++i) labels_.data<int64_t>()[i] = i * 7 % 10;
  }

  void operator()() {
    const Tensor loss = criterion((*model_)(x_), labels_, loss_);
    backward(loss);
    optimizer_.step(*state_);
    optimizer_.zero_grad();
  }

 private:
  ModulePtr make_model(const Arguments& a) {
    ModulePtr model = Choice<MakeModel>("lenet").make({{1, 28, 28}, 10, 1, state_});
    fuse(*model, {{{"conv_act_pool", a.batch_lanes}}});
    model->name_all("");
    model->initialise(1);
    return model;
  }
  static OptimizerOptions sgd(const Arguments& a) {
    OptimizerOptions o{.fused = a.fused_optimizer, .set_to_none = true};
    o.rule.as<SgdOptions>() = {.lr = 0.01, .momentum = 0.9, .weight_decay = 1e-4};  // as the peer
    return o;
  }

  std::shared_ptr<DeviceStepState> state_;
  ModulePtr model_;
  Optimizer optimizer_;
  Tensor x_, labels_;
  LossOptions loss_;
};

double quantile(std::vector<double>& values, double q) {
  const auto at = values.begin() + int64_t(q * double(values.size() - 1));
  std::ranges::nth_element(values, at);
  return *at;
}

// Forward ranges carry the layer's kind, backward ranges the op's name; outer ranges hold inner
// ones.
void print_ops(Step& step) {
  std::map<std::string, std::vector<double>> us;
  trace::collect(true);
  for (int i = 0; i < 200; ++i) {
    step();
    for (const trace::Event& e : trace::take_events())
      us[fmt::format("{:<12} {}", e.path, e.name)].push_back(double(e.end_ns - e.begin_ns) * 1e-3);
  }
  trace::collect(false);
  for (auto& [name, times] : us)
    fmt::print(stderr, "{:<40} {:8.2f} us x {}\n", name, quantile(times, 0.5), times.size() / 200);
}

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv);
  apply(ThreadOptions{.threads = a.threads});
  configure_allocator(Device::cpu, {.caching = a.caching});
  const Kernels use({.vendor = a.vendor});
  Step step(a);
  for (int i = 0; i < a.warmup; ++i) step();
  if (a.ops) print_ops(step);

  std::vector<double> ms, cpu_ms;
  const int64_t begin = trace::now_ns();
  while (ms.size() < 5 || double(trace::now_ns() - begin) * 1e-9 < a.seconds) {
    const double cpu = cpu_seconds();
    const int64_t t = trace::now_ns();
    step();
    ms.push_back(double(trace::now_ns() - t) * 1e-6);
    cpu_ms.push_back((cpu_seconds() - cpu) * 1e3);
  }
  const double median = quantile(ms, 0.5);
  const nlohmann::ordered_json line = {{"name", "bellows"},
                                       {"model", "lenet"},
                                       {"batch", a.batch},
                                       {"precision", "f32"},
                                       {"threads", a.threads},
                                       {"steps", ms.size()},
                                       {"ms_median", median},
                                       {"ms_q1", quantile(ms, 0.25)},
                                       {"ms_q3", quantile(ms, 0.75)},
                                       {"ms_cpu_min", *std::ranges::min_element(cpu_ms)},
                                       {"ips", double(a.batch) / median * 1e3}};
  fmt::print("{}\n", line.dump());
}
