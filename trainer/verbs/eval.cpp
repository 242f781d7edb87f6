// trainer eval RUN: metrics of a trained model on the test set.
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "core/base/output.h"
#include "trainer/session/evaluate.h"
#include "trainer/session/session.h"
#include "trainer/state/training_state.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

static int run_eval(CommandLine& line, const Arguments& args) {
  std::string from, data;
  Names overrides;
  bool json = false;
  line.add_option("run,--checkpoint", from, "run folder or checkpoint file").required();
  line.add_option("overrides", overrides, "key=value: options to change, such as data.root=FOLDER");
  line.add_option(
      "--data", data,
      "data set to evaluate on instead of the run's: a name, {name: ..., options}, or a folder "
      "with the same kind of data; the training data are not needed");
  line.add_flag("--json", json, "print one JSON object, with all digits");
  if (!line.read(args)) return 0;
  const auto session = load_trained(from, true, overrides, data);
  const Metrics metrics = evaluate(*session);
  Json all = {
      {"samples", metrics.samples}, {"damaged", metrics.damaged}, {"seconds", metrics.seconds}};
  for (const auto& [name, value] : metrics.values) all[name] = value;
  const std::string damaged = metrics.damaged ? cat(metrics.damaged, " damaged, ") : "";
  say(json ? to_line(all)
           : cat("eval: ", metrics.samples, " samples, ", damaged, to_text(metrics)));
  return 0;
}

static const AddVerb eval_verb({"eval", "computes the metrics of a trained model on the test set",
                                "trainer eval runs/lenet", run_eval, "use"});

}  // namespace bellows
