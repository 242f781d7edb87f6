#include "trainer/session/evaluate.h"
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include "core/tensor/copy.h"
#include "ops/elementwise.h"
#include "trainer/session/session.h"

namespace bellows {

static constexpr int64_t kTop = 5;  // classes

double Metrics::value(const std::string& metric) const {
  if (metric == "loss") return loss;
  if (metric == "accuracy") return accuracy;
  return accuracy_top5.value();
}

bool improves(const std::string& metric, double value, double on) {
  return std::isfinite(value) && (metric == "loss" ? value < on : value > on);
}

std::vector<std::pair<std::string, double>> values_of(const Metrics& m) {
  std::vector<std::pair<std::string, double>> values = {{"accuracy", m.accuracy}};
  if (m.accuracy_top5) values.emplace_back("accuracy_top5", *m.accuracy_top5);
  values.emplace_back("loss", m.loss);
  return values;
}

std::string text_of(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : values_of(metrics))
    text += fmt::format("{}{}: {:.4f}", text.empty() ? "" : ", ", name, value);
  return text;
}

namespace {

// Returns the `n` rows of logits (N, C) whose label is not kLeftOut, and their labels (n).
std::pair<Tensor, Tensor> undamaged(const Tensor& logits, const Tensor& labels, int64_t n) {
  const int64_t classes = logits.dim(1);
  const Tensor x({n, classes}, DType::f32), y({n}, DType::i64);
  for (int64_t i = 0, kept = 0; i < logits.dim(0); ++i) {
    if (labels.data<int64_t>()[i] == kLeftOut) continue;
    std::ranges::copy(logits.data<float>().subspan(i * classes, classes),
                      x.ptr<float>() + kept * classes);
    y.ptr<int64_t>()[kept++] = labels.data<int64_t>()[i];
  }
  return {x, y};
}

struct Tally {
  int64_t samples = 0, damaged = 0, first = 0, top5 = 0;
  double loss = 0;

  void add(const Tensor& logits, const Tensor& labels, const LossOptions& options) {
    const int64_t n = logits.dim(0), classes = logits.dim(1);
    const Tensor on_host = contiguous(cast(to(Device::cpu, logits.detach()), DType::f32));
    const Tensor truth = to(Device::cpu, labels);
    if (const int64_t out = std::ranges::count(truth.data<int64_t>(), kLeftOut)) {
      damaged += out;
      if (out == n) return;
      const auto [rows, known] = undamaged(on_host, truth, n - out);
      return add(rows, known, options);
    }
    loss += criterion(logits, labels, options).item() * static_cast<double>(n);
    const auto scores = on_host.data<float>();
    for (int64_t i = 0; i < n; ++i)
      add_row(scores.subspan(i * classes, classes), truth.data<int64_t>()[i]);
    samples += n;
  }
  // A tie counts against the model, and so does a row of NaN: a broken model must not look good.
  void add_row(std::span<const float> scores, int64_t label) {
    int64_t ahead = 0;
    for (int64_t c = 0; c < std::ssize(scores); ++c)
      ahead += c != label && !(scores[c] < scores[label]);
    first += ahead == 0;
    top5 += ahead < kTop;
  }
};

// Adds the weighted logits of one more view to the sum of the views so far.
Tensor sum_of(const Tensor& so_far, const Tensor& logits, double weight) {
  const Tensor share = weight == 1 ? logits : affine(amp::full(logits), weight, 0);
  return so_far.defined() ? add(so_far, share) : share;
}

// Restores the training mode of the model, also on an exception.
struct InEvaluation {
  explicit InEvaluation(Module& model) : model(model), before(model.training()) {
    model.train(false);
  }
  ~InEvaluation() { model.train(before); }
  Module& model;
  bool before;
};

}  // namespace

Metrics evaluate(Session& session) {
  const Plan& plan = session.plan;
  const Kernels use(session.kernels());
  const InEvaluation mode(*session.model);
  const EmaScope averaged(*session.ema);
  std::optional<NoGrad> untracked;
  if (plan.eval.no_grad) untracked.emplace();
  const Autocast precision(plan.amp.low());
  const int64_t begin = trace::now_ns();
  const std::vector<TtaView> views = views_of(plan.eval.tta);
  LossOptions loss = plan.loss;
  loss.label_smoothing = 0;  // for training only; evaluations of two runs must be comparable
  Tally tally;
  Tensors answers;  // weighted sum of logits per batch, over the views so far
  for (size_t view = 0; view < views.size(); ++view) {
    session.test_feed->start(int64_t(view));
    size_t at = 0;
    for (Batch batch; session.test_feed->next(batch); ++at) {
      const Tensor logits = (*session.model)(batch.x);
      if (view == 0) answers.emplace_back();
      answers[at] = sum_of(answers[at], logits, views[view].weight);
      if (view + 1 == views.size()) tally.add(std::exchange(answers[at], {}), batch.y, loss);
    }
  }
  if (tally.samples == 0) fail(Exit::data, "test set: no sample of it can be read");
  const auto n = static_cast<double>(tally.samples);
  Metrics metrics{.samples = tally.samples,
                  .damaged = tally.damaged,
                  .loss = tally.loss / n,
                  .accuracy = tally.first / n,
                  .accuracy_top5 = {},
                  .seconds = (trace::now_ns() - begin) * 1e-9};
  if (session.test_set->info().classes >= kTop5From) metrics.accuracy_top5 = tally.top5 / n;
  return metrics;
}

}  // namespace bellows
