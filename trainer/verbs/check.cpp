// trainer check: compares the gradients of every op with central differences, in f64.
#include <set>
#include "autograd/backward.h"
#include "autograd/gradcheck.h"
#include "core/base/output.h"
#include "core/base/trace.h"
#include "core/config/config.h"
#include "ops/base/op.h"
#include "plan/toggle.h"
#include "trainer/run/loop.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

// Returns the ops whose backward runs in a step of that plan.
static std::set<std::string> ops_of(const Plan& plan) {
  Session session(plan);
  const Kernels use(plan.kernels);
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
  CommandLine line("check");
  std::string config;
  Names overrides;
  line.add_option("overrides", overrides, "key=value, over those of the file");
  line.add_option("--config,-c", config, "only the ops that this config trains with");
  if (!line.read(args)) return 0;
  CHECK(!config.empty() || overrides.empty(), "check: only --config takes key=value");
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

static const AddVerb verb({"check", "gradients of the ops against central differences, in f64",
                           "trainer check --config configs/lenet.yaml", run});

}  // namespace bellows
