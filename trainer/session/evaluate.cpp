#include "trainer/session/evaluate.h"
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
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

std::string text_of(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics.values)
    text += fmt::format("{}{}: {:.4f}", text.empty() ? "" : ", ", name, value);
  return text;
}

namespace {

// Sums of scalars of batches, by name. The scalars stay on the device until read().
class BatchSums {
 public:
  explicit BatchSums(Device device) : slots_(Shape{kSlots}, DType::f32, device) {}

  // Returns the index of the sum with that name, which begins with 0.
  int64_t name(const std::string& name) {
    auto sum = std::ranges::find(sums_, name, &Scalars::value_type::first);
    if (sum == sums_.end()) sum = sums_.emplace(sum, name, 0);
    return sum - sums_.begin();
  }
  void add(const std::string& name, const Tensor& scalar, double weight) {
    if (std::ssize(parts_) == kSlots) read();
    copy_into(slots_.view(scalar.shape(), strides_of(scalar.shape()), std::ssize(parts_)),
              scalar.detach());
    parts_.push_back({this->name(name), weight});
  }
  // Returns the sums in the order in which they were named. Waits for the device.
  Scalars& read() {
    if (parts_.empty()) return sums_;
    const Shape filled{std::ssize(parts_)};
    const Tensor host = to(Device::cpu, slots_.view(filled, strides_of(filled), 0));
    for (size_t i = 0; i < parts_.size(); ++i)
      sums_[parts_[i].sum].second += parts_[i].weight * host.data<float>()[i];
    parts_.clear();
    return sums_;
  }

 private:
  static constexpr int64_t kSlots = 16384;
  struct Part {
    int64_t sum;
    double weight;
  };
  Tensor slots_;             // (kSlots) on the device
  std::vector<Part> parts_;  // one per used slot
  Scalars sums_;
};

class Tally {
 public:
  explicit Tally(const Session& session) : loss_(session.plan.loss), sums_(session.device) {
    const int64_t classes = session.test_set->info().classes;
    for (const Choice<MakeMetric>& choice : session.plan.eval.metrics)
      if (const Metric metric = choice.make(); classes >= metric.min_classes) {
        metrics_.push_back(metric);
        sums_.name(metric.name);
      }
    sums_.name("loss");
  }

  void add(const Tensor& logits, const Tensor& labels) {
    const int64_t n = logits.dim(0);
    NamedTensors terms;
    const Tensor loss =
        criterion({.output = logits, .labels = labels, .training = false, .terms = &terms}, loss_);
    const Tensor scores = contiguous(cast(logits.detach(), DType::f32));
    for (const Metric& metric : metrics_) sums_.add(metric.name, metric.sum(scores, labels), 1);
    sums_.add("loss", loss, double(n));
    for (const NamedTensor& term : terms) sums_.add(term.name, term.tensor, double(n));
    samples_ += n;
  }
  // Adds the sums of all ranks, so that each has the means over the whole test set. Waits for the
  // device. Call once.
  Metrics means(ProcessGroup& group) {
    if (group.world() > 1) add_ranks(group);
    Metrics metrics{.samples = samples_, .values = sums_.read()};
    for (auto& [name, value] : metrics.values) value = unsigned_nan(value / double(samples_));
    return metrics;
  }

 private:
  // A rank without a sample does not know the terms of the loss, which come last.
  void add_ranks(ProcessGroup& group) {
    constexpr int64_t kMost = 256;
    const Tensor all = zeros({kMost}, DType::f64);
    const std::span<double> values(all.ptr<double>(), kMost);
    Scalars& sums = sums_.read();
    values[0] = double(samples_);
    const size_t known = std::min<size_t>(sums.size(), kMost - 1);
    for (size_t i = 0; i < known; ++i) values[i + 1] = sums[i].second;
    group.all_reduce(all, Reduction::sum, "evaluation").wait();
    samples_ = int64_t(values[0]);
    for (size_t i = 0; i < known; ++i) sums[i].second = values[i + 1];
  }

  const LossOptions loss_;
  std::vector<Metric> metrics_;
  int64_t samples_ = 0;
  BatchSums sums_;
};

// Buffers, such as running means of a batch norm, follow each rank's own samples. All ranks
// evaluate with those of rank 0, which are also the ones in checkpoints. In dp the same holds for
// the average of the parameters.
void share_buffers(const Session& session) {
  if (session.ranks.world == 1) return;
  broadcast_from_root(*session.group, session.model->buffers());
  if (session.by_root()) broadcast_from_root(*session.group, session.parameters);
}

}  // namespace

InEvaluation::InEvaluation(Session& session)
    : model_(*session.model),
      before_(model_.training()),
      kernels_(session.kernels()),
      precision_(session.plan.amp.low()) {
  if (session.plan.eval.no_grad) untracked_.emplace();
  model_.train(false);
}
InEvaluation::~InEvaluation() { model_.train(before_); }

Metrics evaluate(Session& session, const std::function<bool()>& stop, int64_t batches) {
  const Plan& plan = session.plan;
  const InEvaluation mode(session);
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
    const Tensor logits = (*session.model)(batch.x);
    if (batch.counts.weight > 0) tally.add(logits, batch.y);
  }
  Metrics metrics = tally.means(session.host_group());
  metrics.damaged = session.test_set->damaged();
  if (plan.eval.no_grad) trace::count<"eval.untracked_ops">(skipped.value() - skipped_before);
  metrics.seconds = (trace::now_ns() - begin) * 1e-9;
  return metrics;
}

}  // namespace bellows
