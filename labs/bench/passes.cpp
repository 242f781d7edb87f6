#include "labs/bench/passes.h"
#include <algorithm>
#include "autograd/backward.h"
#include "core/base/output.h"
#include "core/base/trace.h"
#include "core/config/hint.h"
#include "labs/bench/bench.h"
#include "models/module/rewrite.h"
#include "ops/base/work.h"
#include "trainer/verbs/tables.h"

namespace bellows {

FirstUpdate::FirstUpdate(const Plan& plan)
    : session(plan), kernels(session.kernels()), precision(plan.amp.low()) {
  check_alone("bench", plan.dist);
  session.model->train(true);
  session.feed->start(0);
  CHECK(session.feed->next(batch), "bench: the training set has no batch");
}

void Passes::run() const {
  backward(forward());
  zero_grad(leaves, true);
}

Tensor scalar_with_grad(const Tensor& y, const Tensor& dy) {
  return record("scalar", full({}, 0, DType::f32, y.device()), {y},
                [dy](const Tensor&) { return Grads{dy}; });
}

Passes passes_of(const std::string& name, Module& module, const Tensor& x) {
  const Tensor in = needs_grad(x) ? require_grad(x.detach()) : x;
  const Tensor y = module(in).detach(), dy = full(y.shape(), 1, y);
  const auto forward = [&module, in, dy] { return scalar_with_grad(module(in), dy); };
  Tensors leaves;
  for (const NamedTensor& parameter : module.parameters()) leaves.push_back(parameter.tensor);
  if (needs_grad(in)) leaves.push_back(in);
  return {name, forward, leaves};
}

// Backward alone cannot be repeated on every graph, so its time is the time of both passes minus
// the time of the forward pass.
void measure(std::vector<Passes>& parts, Device device) {
  std::vector<std::function<void()>> calls;
  for (const Passes& part : parts) {
    calls.emplace_back(part.forward);
    calls.emplace_back([&part] { part.run(); });
  }
  const std::vector<Timing> times = time_interleaved(calls, device);
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].forward_s = times[2 * i].median();
    parts[i].backward_s = std::max(0.0, times[2 * i + 1].median() - parts[i].forward_s);
  }
}

// ---- trainer bench op --repeat: one module alone, with its input in the first update

namespace {
class Probe final : public Module {
 public:
  Probe(ModulePtr module, Tensor& input) : module(std::move(module)), input_(input) {}
  const char* kind() const override { return module->kind(); }
  ModulePtr module;

 private:
  Tensor forward(const Tensor& x) override {
    input_ = x;
    return (*module)(x);
  }
  Tensor& input_;
};

// Counts of one pass in both directions, by the names of their rows.
using Counts = std::vector<std::pair<const char*, int64_t>>;
}  // namespace

// The modules from the model's child down to each path. A fused module has its parent's path.
using Chain = std::vector<Child*>;
static void collect(Module& module, const std::string& path, Chain chain,
                    std::map<std::string, Chain>& all) {
  for (Child& child : module.children()) {
    const std::string name = path_below(path, child.name);
    chain.push_back(&child);
    if (!child.name.empty()) all[name] = chain;
    collect(*child.module, name, chain, all);
    chain.pop_back();
  }
}

static Chain chain_to(Module& model, const std::string& path) {
  std::map<std::string, Chain> all;
  collect(model, "", {}, all);
  std::vector<std::string> names;
  for (const auto& [name, chain] : all) names.push_back(name);
  CHECK(!names.empty(), "bench op: the model has no modules to repeat");
  CHECK(all.contains(path), "bench op: no module ", on_one_line(path), ", the nearest is '",
        nearest(path, names), "'");
  return all.at(path);
}

static Tensor input_of(Child& child, FirstUpdate& first) {
  Tensor input;
  auto probe = std::make_unique<Probe>(std::move(child.module), input);
  Probe& inside = *probe;
  child.module = std::move(probe);
  (*first.session.model)(first.batch.x);
  child.module = ModulePtr(std::move(inside.module));
  return input;
}

// A shortcut adds the input that its block has stored, so it runs only within its block. The
// shortcut may be inside a fused module, which has no name.
static bool needs_its_block(const Child& child) {
  return is_kind(child, "shortcut") ||
         (child.name.empty() && std::ranges::any_of(child.module->children(), needs_its_block));
}

static Counts count(const Passes& passes, Device device) {
  const trace::Counter& syncs = trace::counter("sync.count");
  const AllocatorStats before = allocator_stats(device);
  const int64_t syncs_before = syncs.value();
  const OpLog log;
  passes.run();
  const AllocatorStats after = allocator_stats(device);
  const int64_t calls = after.system_calls - before.system_calls;
  return {{"ops", std::ssize(log.ops)},
          {"allocations", calls + after.cache_hits - before.cache_hits},
          {"of them by the system", calls},
          {"syncs", syncs.value() - syncs_before}};
}

// Subtracts the cost of the scalar from which backward starts.
static Counts count_module(const Passes& passes, Module& module, const Tensor& x) {
  Counts counts = count(passes, x.device());  // first, before anything else takes cached blocks
  const Tensor y = require_grad(module(x).detach()), dy = full(y.shape(), 1, y);
  const Passes nothing{
      .name = "", .forward = [=] { return scalar_with_grad(y, dy); }, .leaves = {y}};
  nothing.run();
  const Counts rest = count(nothing, x.device());
  for (size_t i = 0; i < rest.size(); ++i) counts[i].second -= rest[i].second;
  return counts;
}

void repeat_module(const std::string& path, const Plan& plan) {
  FirstUpdate first(plan);
  Session& session = first.session;
  Chain chain = chain_to(*session.model, path);
  Tensor input = input_of(*chain.back(), first);
  // A fused module does not call its children, so it is repeated itself.
  while (chain.size() > 1 && (!input.defined() || needs_its_block(*chain.back()))) {
    chain.pop_back();
    input = input_of(*chain.back(), first);
  }
  CHECK(input.defined(), "bench op: the model does not call ", path);
  Module& module = *chain.back()->module;
  std::vector<Passes> passes = {passes_of(path, module, input)};
  measure(passes, session.device);
  const auto ns = [](double seconds) {
    return seconds > 0 ? std::to_string(std::llround(1e9 * seconds)) : time_text(seconds);
  };
  say(cat(plan.name, ": ", path, " (", module.kind(), ") of ", input.shape(), " on ",
          device_text(session.device)));
  std::vector<TableRow> rows = {{"forward, ns", ns(passes[0].forward_s)},
                                {"backward, ns", ns(passes[0].backward_s)}};
  for (const auto& [name, n] : count_module(passes[0], module, input))
    rows.push_back({name, cat(n)});
  say_part(aligned(rows, "lr"));
}

}  // namespace bellows
