#include "tests/toggles/trial.h"
#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>
#include "core/base/trace.h"
#include "tests/plans.h"
#include "tests/pooled_lenet.h"
#include "trainer/run/loop.h"
#include "trainer/session/evaluate.h"
#include "trainer/session/session.h"

namespace bellows {

// One thread: other tests run at the same time, and each parallel region would wait for a core.
Plan tiny_plan(DeviceChoice device) {
  Values tiny = {{"data.train_size", {"96"}},    {"data.test_size", {"32"}},
                 {"data.batch_size", {"16"}},    {"log.every", {"3"}},
                 {"eval.every", {"0"}},          {"ckpt.every", {"0"}},
                 {"log.tensorboard", {"false"}}, {"threads.threads", {"1"}}};
  if (device == DeviceChoice::cuda) tiny.merge(pooled_lenet());
  Plan plan = load(Plan{}, tiny);
  plan.device = device;
  return plan;
}

Plan tiny_adder() {
  return load(tiny_plan(), {{"model.name", {"gpt"}},
                            {"model.layers", {"1"}},
                            {"model.width", {"16"}},
                            {"model.heads", {"2"}},
                            {"data.name", {"sums"}},
                            {"data.train_size", {"96"}},
                            {"data.test_size", {"32"}},
                            {"data.digits", {"2"}}});
}

// Writes checkpoints only if the plan requests some during the run. Returns the losses of training,
// or those of evaluations after these updates.
static std::vector<double> train(const Plan& plan, const std::set<int64_t>& evaluated_after) {
  const Path folder = std::filesystem::temp_directory_path() / cat("bellows_trial_", getpid());
  const bool saves = plan.ckpt.every || plan.ckpt.every_iters;
  if (saves) std::filesystem::create_directories(folder);
  Session session(plan);
  Log log(session.plan, {}, LogOutput::silent);
  Checkpoints checkpoints(folder, plan.ckpt);
  Signals signals;
  std::vector<double> evaluations;
  const Outcome outcome =
      train(session, log, saves ? &checkpoints : nullptr, signals, {}, [&](const Position& at) {
        if (evaluated_after.contains(at.step))
          evaluations.push_back(evaluate(session).value("loss"));
      });
  if (saves) std::filesystem::remove_all(folder);
  return evaluated_after.empty() ? outcome.losses : evaluations;
}

static const Trial& tried(const Plan& plan, const std::set<int64_t>& evaluated_after) {
  static std::map<std::pair<Values, std::set<int64_t>>, Trial> done;
  const std::pair key(dump(plan), evaluated_after);
  if (const auto found = done.find(key); found != done.end()) return found->second;
  const auto before = trace::counters();
  Trial trial{train(plan, evaluated_after), trace::counters()};
  for (const auto& [name, value] : before) trial.counters[name] -= value;
  return done.emplace(key, std::move(trial)).first->second;
}
const Trial& tried(const Plan& plan) { return tried(plan, {}); }

const Trial& evaluated(Plan plan) {
  plan.train.max_iters = 24;
  plan.train.epochs = 24;  // each has an update at least
  return tried(plan, {1, 4, 24});
}

static int64_t moved(const Trial& trial, const char* counter) {
  const auto found = trial.counters.find(counter);
  return found == trial.counters.end() ? 0 : found->second;
}

Closeness closeness(const Toggle& toggle, const Trial& plain, const Trial& changed) {
  const Same same = promise(toggle, plain.counters, changed.counters);
  return {same, same == Same::close ? toggle.tolerance : 0};
}
Closeness weaker(const Closeness& a, const Closeness& b) {
  return {std::max(a.same, b.same), a.tolerance + b.tolerance};
}

static std::string complaint_of_finite(const std::vector<double>& losses) {
  for (const double loss : losses)
    if (!std::isfinite(loss)) return cat("a loss of ", loss);
  return "";
}
// Returns "" if all losses are finite and fall from the first third to the last.
static std::string statistical_complaint(const std::vector<double>& losses) {
  if (std::string complaint = complaint_of_finite(losses); !complaint.empty()) return complaint;
  const size_t third = losses.size() / 3;
  const double first = std::reduce(losses.begin(), losses.begin() + third);
  const double last = std::reduce(losses.end() - third, losses.end());
  return last < first ? "" : cat("the losses go from ", losses.front(), " to ", losses.back());
}

std::string compare(const Trial& plain, const Trial& changed, const Closeness& allowed) {
  if (plain.losses.size() != changed.losses.size())
    return cat(changed.losses.size(), " updates in place of ", plain.losses.size());
  if (allowed.same == Same::statistical) return statistical_complaint(changed.losses);
  for (size_t i = 0; i < plain.losses.size(); ++i) {
    const double a = plain.losses[i], b = changed.losses[i];
    // From the second update on, training amplifies the difference that the first one left.
    const double tolerance = i < 2 ? allowed.tolerance : std::max(allowed.tolerance, 1e-3);
    const bool fine = allowed.same == Same::bitwise
                          ? a == b
                          : std::abs(a - b) <= tolerance * std::max(1.0, std::abs(a));
    if (!fine)
      return cat("update ", i + 1, ": the loss is ", b, " and not ", a, ", ", name_of(allowed.same),
                 " is what it promises");
  }
  return "";
}

std::string gain_complaint(const Toggle& toggle, const Trial& off, const Trial& on) {
  const std::string gains = toggle.gains;
  const bool counts = gains.find('.') != gains.npos && !gains.ends_with("_ns");
  // It moves its system calls before the first step: the lesson longest_first counts them.
  if (!counts || toggle.name == "preallocate") return "";
  const int64_t before = moved(off, toggle.gains), after = moved(on, toggle.gains);
  const bool is_sent = gains == "dist.bytes";  // ranks that are threads send nothing
  if (after < before || (is_sent && before == 0)) return "";
  return cat(toggle.name, ": ", gains, " moved by ", after, " with it, and by ", before,
             " without\n");
}

static Plan proof_plan(const Toggle& toggle, DeviceChoice device) {
  return with_proof(tiny_plan(device), toggle);
}

std::string footprint_findings(const Toggle& toggle, DeviceChoice device) {
  std::string findings;
  for (const std::string& value : toggle.values) {
    if (!no_effect(toggle, device, value).empty()) continue;
    const bool on = value != toggle.off();
    const Plan plan = switched(proof_plan(toggle, device), toggle, value);
    const int64_t footprint = moved(tried(plan), toggle.footprint);
    if (on) findings += gain_complaint(toggle, tried(proof_plan(toggle, device)), tried(plan));
    if (on != (footprint > 0))
      findings += cat(toggle.name, ": ", value, ", but ", toggle.footprint,
                      on ? " stood still\n" : cat(" moved by ", footprint, "\n"));
  }
  return findings;
}

template <class Try, class Compare>
static std::string findings_of(const Toggle& toggle, DeviceChoice device, const Try& run,
                               const Compare& complaint_of) {
  const Plan plan = proof_plan(toggle, device);
  std::string findings;
  for (const std::string& value : toggle.values) {
    if (!no_effect(toggle, device, value).empty()) continue;
    const Trial &plain = run(plan), &changed = run(switched(plan, toggle, value));
    const std::string complaint = complaint_of(plain, changed, closeness(toggle, plain, changed));
    if (!complaint.empty()) findings += cat(toggle.name, ": ", value, ": ", complaint, "\n");
  }
  return findings;
}

std::string loss_findings(const Toggle& toggle, DeviceChoice device) {
  return findings_of(
      toggle, device, [](const Plan& plan) -> auto& { return tried(plan); }, compare);
}
std::string evaluation_findings(const Toggle& toggle, DeviceChoice device) {
  // So few samples are soon learned by heart, so the loss of an evaluation need not fall.
  const auto compare_evaluations = [](const Trial& plain, const Trial& changed,
                                      const Closeness& allowed) {
    return allowed.same == Same::statistical ? complaint_of_finite(changed.losses)
                                             : compare(plain, changed, allowed);
  };
  return findings_of(toggle, device, evaluated, compare_evaluations);
}

static std::string pair_findings(const Plan& plan, const Toggle& toggle, const Toggle& other) {
  const Plan both =
      switched(switched(plan, toggle, toggle.values.back()), other, other.values.back());
  const Trial &plain = tried(plan), &changed = tried(both);
  const std::string complaint = compare(
      plain, changed, weaker(closeness(toggle, plain, changed), closeness(other, plain, changed)));
  return complaint.empty() ? "" : cat(toggle.name, " and ", other.name, ": ", complaint, "\n");
}

std::string pair_findings(const Toggle& toggle, const Toggle& other, DeviceChoice device) {
  return pair_findings(proof_plan(toggle, device), toggle, other);
}

std::string pair_findings_of_the_adder(const Toggle& toggle, const Toggle& other) {
  Plan plan = tiny_adder();
  std::set<std::string> needs(toggle.needs.begin(), toggle.needs.end());
  needs.insert(other.needs.begin(), other.needs.end());
  for (const std::string& need : needs)
    if (const Toggle* const needed = find_toggle(need);
        needed && needed != &toggle && needed != &other)
      plan = switched(plan, *needed, suggested(*needed));
  return pair_findings(plan, toggle, other);
}

bool can_run(const Toggle& toggle, DeviceChoice device) {
  return no_effect(toggle, device).empty();
}

}  // namespace bellows
