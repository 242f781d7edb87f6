// trainer check: compares the gradients of every op with central differences, in f64.
#include <set>
#include "autograd/gradcheck.h"
#include "core/base/output.h"
#include "core/base/trace.h"
#include "core/config/config.h"
#include "ops/base/op.h"
#include "plan/toggle.h"
#include "trainer/session/session.h"
#include "trainer/session/training_step.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

static std::set<std::string> list_ops(Plan plan) {
  plan.kernels.autotune = Autotune::heuristic;  // a search would change the user's cache
  Session session(plan);
  trace::collect(true);
  dry_run(session);
  trace::collect(false);
  std::set<std::string> names;
  for (const trace::Event& event : trace::take_events()) names.insert(event.name);
  return names;
}

static int run_check(CommandLine& line, const Arguments& args) {
  std::string config;
  Names overrides;
  line.add_config(config, overrides, "check only the ops that training with this config uses");
  if (!line.read(args)) return 0;
  CHECK(!config.empty() || overrides.empty(),
        "check: key=value has no effect without --config; add --config FILE");
  std::set<std::string> wanted;
  if (!config.empty()) wanted = list_ops(make_config(read_sources(config, overrides)).plan);
  Names wrong;
  int64_t checked = 0;
  for (const OpSpec& op : op_specs()) {
    if (!op.differentiable || (!config.empty() && !wanted.contains(op.name))) continue;
    std::string problem;
    for (size_t i = 0; i < op.cases.size() && problem.empty(); ++i)
      problem = gradcheck(op.name, op.run, make_inputs(op, op.cases[i], DType::f64));
    say(cat(problem.empty() ? "ok    " : "WRONG ", op.name, *op.variant ? ", " : "", op.variant,
            problem.empty() ? "" : ": ", problem));
    if (!problem.empty()) wrong.push_back(op.name);
    ++checked;
  }
  if (!wrong.empty())
    fail(Exit::internal, wrong.size(), " of ", checked,
         " ops have a wrong gradient, first: ", wrong.front());
  say(cat("gradients of ", checked, " ops agree with central differences"));
  return 0;
}

static const AddVerb check_verb(
    {"check", "compares the gradients of each op with central differences, in f64",
     "trainer check --config configs/lenet.yaml", run_check});

}  // namespace bellows
