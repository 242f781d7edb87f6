// trainer check: compares the gradients of every op with central differences, in f64.
#include <set>
#include "autograd/backward.h"
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

// Returns the ops whose backward runs in a step of that plan.
static std::set<std::string> ops_of(Plan plan) {
  plan.kernels.autotune = Autotune::heuristic;  // a search would be kept in the user's cache
  Session session(plan);
  trace::collect(true);
  dry_run(session);
  trace::collect(false);
  std::set<std::string> names;
  for (const trace::Event& event : trace::take_events()) names.insert(event.name);
  return names;
}

// Returns an error in one of the op's cases, or "".
static std::string check_op(const OpSpec& op) {
  for (const Shapes& shapes : op.cases) {
    const std::string wrong = gradcheck(op.name, op.run, make_inputs(op, shapes, DType::f64));
    if (!wrong.empty()) return wrong;
  }
  return "";
}

static int run(const Arguments& args) {
  CommandLine line = verb_line("check");
  std::string config;
  Names overrides;
  line.add_option("overrides", overrides, "key=value: options that override those of the file");
  line.add_option("--config,-c", config, "check only the ops that training with this config uses");
  if (!line.read(args)) return 0;
  CHECK(!config.empty() || overrides.empty(),
        "check: key=value has no effect without --config; add --config FILE");
  std::set<std::string> wanted;
  if (!config.empty()) wanted = ops_of(make_config(sources_of(config, overrides)).plan);
  Names wrong;
  int64_t checked = 0;
  for (const OpSpec& op : op_specs()) {
    if (!op.differentiable || (!config.empty() && !wanted.contains(op.name))) continue;
    const std::string problem = check_op(op);
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

static const AddVerb verb({"check",
                           "compares the gradients of each op with central differences, in f64",
                           "trainer check --config configs/lenet.yaml", run});

}  // namespace bellows
