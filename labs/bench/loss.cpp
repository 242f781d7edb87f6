// trainer bench loss: forward and backward time of each term of the loss, beside the model's own.
#include "models/losses/loss.h"
#include <fmt/format.h>
#include <algorithm>
#include "autograd/backward.h"
#include "core/base/output.h"
#include "core/config/config.h"
#include "labs/bench/bench.h"
#include "labs/bench/passes.h"
#include "ops/elementwise.h"
#include "plan/toggle.h"
#include "trainer/verbs/tables.h"

namespace bellows {

// The term starts from a leaf with the model's output, so its backward pass ends there.
static Passes term_part(Session& session, const Batch& batch, const LossTerm& term) {
  const Tensor output = require_grad((*session.model)(batch.x).detach());
  const LossInput in{.output = output, .target = batch.y, .fused = session.plan.loss.fused};
  const std::string weight = term.weight == 1 ? "" : fmt::format(" x {:g}", term.weight);
  return {
      term.name + weight, [term, in] { return mul(term.loss.make(in), term.weight); }, {output}};
}

static std::string percent(double part, double all) {
  return fmt::format("{:.1f} %", 100 * part / all);
}

static void print(const std::vector<Passes>& parts) {
  double all = 0;
  for (const Passes& part : parts) all += part.seconds();
  std::vector<TableRow> rows = {{"", "forward", "backward", "both", "share"}};
  for (const Passes& part : parts)
    rows.push_back({part.name, time_text(part.forward_s), time_text(part.backward_s),
                    time_text(part.seconds()), percent(part.seconds(), all)});
  say_part(aligned(rows, "lrrrr"));
  const double losses = all - parts[0].seconds();
  const Passes& slowest = *std::ranges::max_element(
      parts.begin() + 1, parts.end(), {}, [](const Passes& part) { return part.seconds(); });
  say(cat("the loss takes ", percent(losses, all), " of model and loss",
          parts.size() == 2 ? ""
                            : cat("; slowest term: ", slowest.name, ", ",
                                  percent(slowest.seconds(), losses), " of the loss")));
}

static int run_loss(CommandLine& line, const Arguments& args) {
  std::string config;
  Arguments overrides;
  line.add_config(config, overrides);
  line.add_note("Uses the first batch of training. Ranks of a launcher are not supported.");
  if (!line.read(args)) return 0;
  const Plan plan = make_config(read_sources(config, overrides)).plan;
  FirstUpdate first(plan);
  Session& session = first.session;
  const Batch& batch = first.batch;
  std::vector<Passes> parts = {passes_of("model", *session.model, batch.x)};
  for (const LossTerm& term : terms_of(plan.loss)) parts.push_back(term_part(session, batch, term));
  measure(parts, session.device);
  say(cat(plan.name, ": batch ", batch.size(), " on ", device_text(session.device)));
  print(parts);
  return 0;
}

static const AddBench loss_bench({"loss",
                                  "times each term of the loss, beside the model's own time",
                                  "trainer bench loss --config configs/lenet.yaml", run_loss});

}  // namespace bellows
