#include "optim/sgd.h"
#include "core/config/choice.h"
#include "core/config/visitor.h"
#include "optim/rule_cpu.h"

namespace bellows {

void visit(Visitor& v, SgdOptions& o) {
  v("lr", o.lr, "peak learning rate", {.min = 0});
  v("momentum", o.momentum, "share of the last direction that is kept", {.min = 0, .max = 1});
  v("nesterov", o.nesterov, "look ahead: the gradient plus the momentum after it");
  v("weight_decay", o.weight_decay, "L2 penalty, added to the gradient", {.min = 0});
}

static UpdateRule sgd(const SgdOptions& o) {
  CHECK(!o.nesterov || o.momentum > 0, "optimizer: nesterov needs momentum > 0, e.g. 0.9");
  using Passes = Sgd<float>;
  UpdateRule rule{.lr = o.lr, .buffers = {}, .passes = {}, .run = [o](const Launch& u) {
                    kernels::sgd(u.weights, u, o);
                  }};
  rule.passes = {Passes::copy};
  if (o.weight_decay > 0) rule.passes = {Passes::scale, Passes::sum};
  if (o.momentum > 0) {
    rule.buffers = {"momentum"};
    rule.passes.push_back(o.nesterov ? Passes::nesterov : Passes::momentum);
  }
  rule.passes.push_back(Passes::step);
  return rule;
}

static const AddEntry<UpdateRule()> entry("sgd", "stochastic gradient descent", sgd);
static const bool cpu = kernels::sgd.on(Device::cpu, update_cpu<Sgd, SgdOptions>);

}  // namespace bellows
