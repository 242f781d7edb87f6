// A weighted sum of losses. The log shows each term without its weight, as "loss.<name>":
//   loss: {name: sum, terms: [{name: cross_entropy}, {name: l1, weight: 0.1}]}
#include "core/config/visitor.h"
#include "models/losses/loss.h"
#include "ops/elementwise.h"

namespace bellows {

namespace {
struct Term {
  Choice<LossFunction> loss;
  double weight = 1;
};
void visit(Visitor& v, Term& o) {
  v.choice("name", o.loss, "a loss");
  v("weight", o.weight, "factor of the loss in the sum");
}
struct SumOptions {
  std::vector<Term> terms = {{Choice<LossFunction>("cross_entropy")}};
};
void visit(Visitor& v, SumOptions& o) {
  v.groups("terms", o.terms, "losses and their weights");
  v.require("terms", !o.terms.empty(), "must have a term, as in [{name: cross_entropy}]");
}
}  // namespace

// "loss.l1"; a second l1 is "loss.l1_2".
static std::string name_of(const std::vector<Term>& terms, size_t i) {
  const std::string& name = terms[i].loss.name();
  int64_t same = 0;
  for (size_t k = 0; k <= i; ++k) same += terms[k].loss.name() == name;
  return same == 1 ? cat("loss.", name) : cat("loss.", name, "_", same);
}

static Tensor sum_of_losses(const SumOptions& o, const LossInput& in) {
  LossInput inner = in;
  inner.terms = nullptr;
  Tensor sum;
  for (size_t i = 0; i < o.terms.size(); ++i) {
    const Tensor term = o.terms[i].loss.make(inner);
    if (in.terms) in.terms->push_back({name_of(o.terms, i), term.detach()});
    const Tensor share = mul(term, o.terms[i].weight);
    sum = i ? add(sum, share) : share;
  }
  return sum;
}

std::vector<LossTerm> terms_of(const LossOptions& options) {
  if (options.loss.name() != "sum") return {{"loss." + options.loss.name(), options.loss}};
  Choice<LossFunction> sum = options.loss;
  const std::vector<Term>& terms = sum.as<SumOptions>().terms;
  std::vector<LossTerm> all;
  for (size_t i = 0; i < terms.size(); ++i)
    all.push_back({name_of(terms, i), terms[i].loss, terms[i].weight});
  return all;
}

static const AddEntry<LossFunction> sum_entry("sum", "weighted sum of losses", sum_of_losses);

}  // namespace bellows
