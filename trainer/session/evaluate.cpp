#include "trainer/session/evaluate.h"
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <optional>
#include "autograd/amp.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "trainer/session/session.h"

namespace bellows {

double Metrics::value(const std::string& metric) const {
  const auto found = std::ranges::find(values, metric, &Scalars::value_type::first);
  INVARIANT(found != values.end(), "evaluation has no ", metric);
  return found->second;
}

bool higher_is_better(const Plan& plan, const std::string& metric) {
  for (const Choice<MakeMetric>& choice : plan.eval.metrics)
    if (const Metric made = choice.make(); made.name == metric) return made.higher_is_better;
  return false;
}

bool improves(bool higher_is_better, double value, double than) {
  return std::isfinite(value) && (higher_is_better ? value > than : value < than);
}

std::string to_text(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics.values)
    text += fmt::format("{}{}: {:.4f}", text.empty() ? "" : ", ", name, value);
  return text;
}

namespace {

// Sums over the batches of a test set: for each metric, for the loss, and for its terms.
class Tally {
 public:
  explicit Tally(const Session& session)
      : loss_(session.plan.loss), slots_(Shape{kSlots}, DType::f32, session.device) {
    const int64_t classes = session.test_set->info().classes;
    for (const Choice<MakeMetric>& choice : session.plan.eval.metrics)
      if (const Metric metric = choice.make(); metric.computed_for(classes)) {
        metrics_.push_back(metric);
        sums_.push_back({metric.name, std::vector<double>(metric.sums_count)});
      }
    sums_.push_back({"loss", {0}});
  }

  void add(const Tensor& output, const Batch& batch) {
    NamedTensors terms;
    const Tensor loss =
        criterion({.output = output, .target = batch.y, .training = false, .terms = &terms}, loss_);
    const Tensor scores = contiguous(cast(output.detach(), DType::f32));
    for (const Metric& metric : metrics_) add(metric.name, metric.sums(scores, batch.y), 1);
    const auto n = double(batch.counts.targets);  // the loss is a mean over the targets
    add("loss", loss, n);
    for (const NamedTensor& term : terms) add(term.name, term.tensor, n);
    samples_ += double(batch.size());
    units_ += n;
  }
  // Adds the sums of all ranks, so that each rank has the values of the whole test set. Waits for
  // the device. Call once.
  Metrics values(ProcessGroup& group) {
    read();
    if (group.world() > 1) add_ranks(group);
    Metrics metrics{.samples = int64_t(samples_)};
    auto metric = metrics_.begin();  // the first sums are those of metrics
    for (const auto& [name, sums] : sums_) {
      const double value = metric != metrics_.end() ? (metric++)->value(sums) : sums[0] / units_;
      metrics.values.emplace_back(name, unsigned_nan(value));
    }
    return metrics;
  }

 private:
  static constexpr int64_t kSlots = 16384;
  struct Sums {
    std::string name;
    std::vector<double> values;
  };
  struct Part {
    int64_t sums;  // index in sums_
    double weight;
  };

  // terms: one for each sum under `name`. The terms stay on the device until read().
  void add(const std::string& name, const Tensor& terms, double weight) {
    if (used_ + terms.numel() > kSlots) read();
    auto sums = std::ranges::find(sums_, name, &Sums::name);
    if (sums == sums_.end()) sums = sums_.insert(sums, {name, {0}});  // a term of the loss
    copy_into(slots_.view(terms.shape(), strides_of(terms.shape()), used_), terms.detach());
    parts_.push_back({sums - sums_.begin(), weight});
    used_ += terms.numel();
  }
  void read() {  // waits for the device
    if (parts_.empty()) return;
    const Tensor host = to(Device::cpu, slots_.view({used_}, {1}, 0));
    const float* term = host.ptr<float>();
    for (const Part& part : parts_)
      for (double& sum : sums_[part.sums].values) sum += part.weight * *term++;
    parts_.clear();
    used_ = 0;
  }
  // A rank without a sample does not know the terms of the loss, which come last.
  void add_ranks(ProcessGroup& group) {
    constexpr int64_t kMost = 256;
    std::vector<double*> all = {&samples_, &units_};
    for (Sums& sums : sums_)
      for (double& sum : sums.values) all.push_back(&sum);
    const Tensor joint = zeros({kMost}, DType::f64);
    const std::span<double> values = joint.data<double>();
    const size_t n = std::min<size_t>(all.size(), kMost);
    for (size_t i = 0; i < n; ++i) values[i] = *all[i];
    group.all_reduce(joint, Reduction::sum, "evaluation").wait();
    for (size_t i = 0; i < n; ++i) *all[i] = values[i];
  }

  const LossOptions loss_;
  std::vector<Metric> metrics_;
  std::vector<Sums> sums_;  // sums of the metrics, of the loss, and of its terms
  double samples_ = 0, units_ = 0;
  Tensor slots_;             // (kSlots) on the device
  int64_t used_ = 0;         // slots
  std::vector<Part> parts_;  // in the order of the slots
};

// Buffers, such as running means of a batch norm, follow each rank's own samples. All ranks
// evaluate with the buffers of rank 0, which are also in checkpoints. In dp the same holds for the
// average of the parameters.
void share_buffers(const Session& session) {
  if (session.ranks.world == 1) return;
  broadcast_from_root(*session.group, session.model->buffers());
  if (session.by_root()) broadcast_from_root(*session.group, session.parameters);
}

struct InEvaluation {
  explicit InEvaluation(Module& model) : model(model) { model.train(false); }
  ~InEvaluation() { model.train(before); }
  InEvaluation(InEvaluation&&) = delete;

  Module& model;
  const bool before = model.training();
};

}  // namespace

Metrics evaluate(Session& session, const std::function<bool()>& stop, int64_t batches) {
  const Plan& plan = session.plan;
  const InEvaluation mode(*session.model);
  const Kernels use(session.kernels());
  const Autocast precision(plan.amp.low());
  std::optional<NoGrad> untracked;
  if (plan.eval.no_grad) untracked.emplace();
  const EmaScope averaged(*session.ema);
  share_buffers(session);
  const trace::Counter& skipped = trace::counter("grad.untracked_ops");
  const int64_t skipped_before = skipped.value();
  const int64_t begin = trace::now_ns();
  Tally tally(session);
  session.test_feed->start(0);
  int64_t at = 0;
  for (Batch batch; at < batches && session.test_feed->next(batch); ++at) {
    if (stop && stop()) return {};
    session.lengths->value = batch.lengths;
    const Tensor output = (*session.model)(batch.x);
    if (batch.counts.weight > 0) tally.add(output, batch);
  }
  Metrics metrics = tally.values(session.host_group());
  metrics.damaged = session.test_set->damaged();
  if (plan.eval.no_grad) trace::count<"eval.untracked_ops">(skipped.value() - skipped_before);
  metrics.seconds = (trace::now_ns() - begin) * 1e-9;
  return metrics;
}

}  // namespace bellows
