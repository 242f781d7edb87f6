// trainer eval RUN: metrics of a trained model on the test set.
#include "core/base/json.h"
#include "core/base/output.h"
#include "trainer/session/evaluate.h"
#include "trainer/state/trained.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

static int run(const Arguments& args) {
  CommandLine line("eval");
  std::string from, data;
  Names overrides;
  bool json = false;
  line.add_option("run,--checkpoint", from, "run folder or checkpoint file")->required();
  line.add_option("overrides", overrides, "key=value: data.root=FOLDER, eval.batch_size=500");
  line.add_option(
      "--data", data,
      "another data set: its name, {name: ..., its options}, or a folder for one of the "
      "run's kind; the training data need not be there");
  line.add_flag("--json", json, "in full precision");
  if (!line.read(args)) return 0;
  const auto session = load_to_evaluate(from, overrides, data);
  const Kernels use(session->plan.kernels);
  const Metrics metrics = evaluate(*session);
  Json all = {
      {"samples", metrics.samples}, {"damaged", metrics.damaged}, {"seconds", metrics.seconds}};
  for (const auto& [name, value] : metrics.values) all[name] = value;
  const std::string damaged = metrics.damaged ? cat(metrics.damaged, " damaged, ") : "";
  say(json ? to_line(all)
           : cat("eval: ", metrics.samples, " samples, ", damaged, text_of(metrics)));
  return 0;
}

static const AddVerb verb({"eval", "metrics of a trained model on the test set",
                           "trainer eval runs/lenet", run});

}  // namespace bellows
