#include "optim/adam.h"
#include "core/config/choice.h"
#include "core/config/visitor.h"
#include "optim/rule_cpu.h"

namespace bellows {

void visit(Visitor& v, AdamOptions& o) {
  v("lr", o.lr, "peak learning rate", {.min = 0});
  v("beta1", o.beta1, "decay of the mean of the gradients", {.min = 0, .max = 0.999999});
  v("beta2", o.beta2, "decay of the mean of their squares", {.min = 0, .max = 0.999999});
  v("eps", o.eps, "keeps the denominator from zero", {.min = 0});
  v("weight_decay", o.weight_decay, "adam: L2 penalty in the gradient; adamw: share of the weight",
    {.min = 0});
}

UpdateRule adam_rule(const AdamOptions& o, Decay decay) {
  using Passes = Adam<float>;
  UpdateRule rule{.lr = o.lr,
                  .buffers = {"exp_avg", "exp_avg_sq"},  // PyTorch's names
                  .passes = {Passes::copy},
                  .run = [o](const Launch& u) { kernels::adam(u.weights, u, o); }};
  if (o.weight_decay > 0 && decay == Decay::l2) rule.passes = {Passes::scale, Passes::sum};
  if (o.weight_decay > 0 && decay == Decay::decoupled) rule.passes.push_back(Passes::decay);
  for (const unsigned pass : {Passes::mean, Passes::square, Passes::step})
    rule.passes.push_back(pass);
  return rule;
}

static UpdateRule adam(const AdamOptions& o) { return adam_rule(o, Decay::l2); }
static const AddEntry<UpdateRule()> entry("adam", "adaptive moments, L2 penalty", adam);
static const bool cpu = kernels::adam.on(Device::cpu, update_cpu<Adam, AdamOptions>);

}  // namespace bellows
