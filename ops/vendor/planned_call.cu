#include <map>
#include <utility>
#include "core/base/module_path.h"
#include "core/base/output.h"
#include "core/base/trace.h"
#include "core/device/allocator.h"
#include "core/device/sync_guard.h"
#include "ops/vendor/planned_call.h"

namespace bellows {

static const char* caller() { return running_kernel() ? running_kernel() : "vendor"; }

// ---- PlannedCall

bool PlannedCall::has_plan() {
  if (!now_.plan && !std::exchange(proposed_, true)) rest_ = propose_(Search::quick);
  while (!now_.plan && !rest_.empty()) {
    const Proposal next = std::move(rest_.front());
    rest_.erase(rest_.begin());
    if (!dropped_.contains(next.name)) now_ = {next.name, next.build()};
  }
  return now_.plan != nullptr;
}

void PlannedCall::drop(const std::string& name, const std::string& why) {
  warn(cat(caller(), ": plan ", name, " is dropped for ", problem_, ": ", why));
  dropped_.insert(name);
  if (name == now_.name) now_ = {}, unproven_calls_ = 0;
  const SyncGuard expected(OnSync::ignore);
  synchronize(current_stream(Device::cuda));  // throws if the device itself has failed
}

bool PlannedCall::run(Bindings bindings) {
  if (capturing()) {
    if (!now_.has_run) return note_fallback("no plan has run before the capture"), false;
    keep_for_capture(now_.plan);
    trace::note_kernel(now_.name);
    now_.plan->run(bindings);
    return true;
  }
  while (has_plan()) {
    try {
      now_.plan->run(bindings);
      trace::note_kernel(now_.name);
      return now_.has_run = true;
    } catch (const PlanFailure& failure) {
      drop(now_.name, failure.what());
    }
  }
  return note_fallback("no plan for " + problem_), false;
}

// ---- search

bool PlannedCall::is_unproven() {
  if (kernel_options().autotune != Autotune::benchmark || capturing()) return false;
  return !now_.is_right && has_plan();
}

void PlannedCall::try_out(Candidate& candidate, const Trial& trial, Tensors& plain) {
  try {
    const Tensors got = trial.run(*candidate.plan);
    candidate.has_run = true;
    if (std::exchange(candidate.compared, true)) return;
    const SyncGuard expected(OnSync::ignore);
    if (plain.empty()) {
      const Kernels only_plain({});
      plain = trial.plain();
    }
    const std::optional<std::string> why = difference(got, plain);
    if (why && !why->empty()) throw PlanFailure(*why);
    candidate.is_right = why.has_value();
  } catch (const PlanFailure& failure) {
    drop(candidate.name, failure.what());
    throw;
  }
}

void PlannedCall::settle(bool due, const Trial& trial) {
  const PoolScope shared(nullptr);  // memory of the trial is not a graph's
  Tensors plain;                    // results of the plain kernel, which runs once
  now_.compared = false;
  if (due) search(trial, plain);
  while (is_unproven() && !now_.compared) {
    try {
      try_out(now_, trial, plain);
    } catch (const PlanFailure&) {  // dropped
    }
  }
}

// The plans that lose are freed at the end; the winner is the one that was timed.
void PlannedCall::search(const Trial& trial, Tensors& plain) {
  constexpr size_t kMostPlans = 16;
  std::vector<Candidate> built;
  const auto find = [&](const std::string& name) {
    built.clear();
    for (const Proposal& proposal : propose_(Search::thorough)) {
      if (built.size() == kMostPlans || (!built.empty() && search_time_is_up())) break;
      if (dropped_.contains(proposal.name) || (!name.empty() && name != proposal.name)) continue;
      if (auto plan = proposal.build()) built.push_back({proposal.name, std::move(plan)});
    }
    Candidates candidates;
    for (size_t i = 0; i < built.size(); ++i)
      candidates.push_back({built[i].name, built[i].plan->workspace_bytes(),
                            [&, i] { try_out(built[i], trial, plain); }});
    return candidates;
  };
  if (const auto best = tuning_.make(Device::cuda, problem_, find)) now_ = built[*best];
}

// ---- the process's calls

std::shared_ptr<PlannedCall> planned_call(const std::string& problem, const Propose& propose) {
  static auto& all = *new std::map<std::string, std::shared_ptr<PlannedCall>>;
  auto& call = all[cat(tuned_machine(Device::cuda), " ", problem)];
  if (!call) call = std::make_shared<PlannedCall>(problem, propose);
  return call;
}

void note_fallback(const std::string& why) {
  trace::count<"kernel.fallbacks">();
  static auto& reported = *new std::set<std::pair<const ModuleSite*, std::string>>;
  if (!reported.insert({current_site(), caller()}).second) return;
  const std::string& layer = current_site()->path;
  warn(cat(layer.empty() ? "" : cat("layer '", layer, "': "), caller(),
           " falls back to the plain kernel, which is slow: ", why));
}

}  // namespace bellows
