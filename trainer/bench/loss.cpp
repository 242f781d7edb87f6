// trainer bench loss: forward and backward time of each term of the loss, beside the model's own.
#include <fmt/format.h>
#include <algorithm>
#include "autograd/backward.h"
#include "core/base/output.h"
#include "core/config/config.h"
#include "core/device/timer.h"
#include "core/tensor/foreach.h"
#include "models/losses/terms.h"
#include "ops/elementwise.h"
#include "plan/toggle.h"
#include "trainer/bench/bench.h"
#include "trainer/session/session.h"
#include "trainer/verbs/tables.h"

namespace bellows {

namespace {
// One part of an update's loss: the model, or a term.
struct LossPart {
  std::string name;
  std::function<Tensor()> forward;  // records a graph and returns a scalar
  std::function<void()> drop_grads;
  double forward_s = 0, backward_s = 0;  // medians
  double seconds() const { return forward_s + backward_s; }
};
}  // namespace

// A scalar whose backward pass starts with the gradient dy of y.
static Tensor scalar_of(const Tensor& y, const Tensor& dy) {
  return record("loss", full({}, 0, DType::f32, y.device()), {y},
                [dy](const Tensor&) { return Grads{dy}; });
}

static LossPart model_part(Session& session, const Batch& batch) {
  const Tensor y = (*session.model)(batch.x).detach(), dy = full(y.shape(), 1, y);
  return {"model", [&session, batch, dy] { return scalar_of((*session.model)(batch.x), dy); },
          [&session] { session.optimizer->zero_grad(); }};
}

// The term begins at a leaf with the values of the model's output, so its backward pass ends there.
static LossPart term_part(Session& session, const Batch& batch, const LossTerm& term) {
  const Tensor output = require_grad((*session.model)(batch.x).detach());
  const LossInput in{.output = output, .labels = batch.y, .fused = session.plan.loss.fused};
  const std::string weight = term.weight == 1 ? "" : fmt::format(" x {:g}", term.weight);
  return {term.name + weight, [term, in] { return mul(term.loss.make(in), term.weight); },
          [output] { zero_grad(std::vector{output}, true); }};
}

// Backward alone cannot be repeated on every graph, so its time is that of both passes less that of
// the forward pass.
static void measure(std::vector<LossPart>& parts, Device device) {
  std::vector<std::function<void()>> calls;
  for (const LossPart& part : parts) {
    calls.emplace_back(part.forward);
    calls.emplace_back([&part] {
      backward(part.forward());
      part.drop_grads();
    });
  }
  const std::vector<Timing> times = time_interleaved(calls, device);
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].forward_s = times[2 * i].median();
    parts[i].backward_s = std::max(0.0, times[2 * i + 1].median() - parts[i].forward_s);
  }
}

static std::string percent(double part, double all) {
  return fmt::format("{:.1f} %", 100 * part / all);
}

static void print(const std::vector<LossPart>& parts) {
  double all = 0;
  for (const LossPart& part : parts) all += part.seconds();
  std::vector<TableRow> rows = {{"", "forward", "backward", "both", "share"}};
  for (const LossPart& part : parts)
    rows.push_back({part.name, time_text(part.forward_s), time_text(part.backward_s),
                    time_text(part.seconds()), percent(part.seconds(), all)});
  say_part(aligned(rows, "lrrrr"));
  const double losses = all - parts[0].seconds();
  const LossPart& slowest = *std::ranges::max_element(
      parts.begin() + 1, parts.end(), {}, [](const LossPart& part) { return part.seconds(); });
  say(cat("the loss takes ", percent(losses, all), " of model and loss",
          parts.size() == 2 ? ""
                            : cat("; slowest term: ", slowest.name, ", ",
                                  percent(slowest.seconds(), losses), " of the loss")));
}

static int run(const Arguments& args) {
  CommandLine line = bench_line("loss");
  std::string config;
  Arguments overrides;
  line.add_option("overrides", overrides, "key=value: options that override those of the file");
  line.add_option("--config,-c", config, "YAML file with the options of the run");
  line.add_note("Uses the first batch of training. Ranks of a launcher are not supported.");
  if (!line.read(args)) return 0;
  const Plan plan = make_config(sources_of(config, overrides)).plan;
  Session session(plan);
  CHECK(session.ranks.world == 1, "bench loss: times one rank, and the launcher started ",
        session.ranks.world, "; run it without a launcher");
  const Kernels use(session.kernels());
  const Autocast precision(plan.amp.low());
  const auto alone = session.reducer->pause();
  session.model->train(true);
  Batch batch;
  session.feed->start(0);
  CHECK(session.feed->next(batch), "bench loss: there is no batch");
  std::vector<LossPart> parts = {model_part(session, batch)};
  for (const LossTerm& term : terms_of(plan.loss)) parts.push_back(term_part(session, batch, term));
  measure(parts, session.device);
  say(cat(plan.name, ": batch ", batch.size(), " on ", device_text(session.device)));
  print(parts);
  return 0;
}

static const AddBench bench({"loss", "times each term of the loss, beside the model's own time",
                             "trainer bench loss --config configs/lenet.yaml", run});

}  // namespace bellows
