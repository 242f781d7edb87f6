#include <algorithm>
#include "trainer/run/loop_parts.h"
#include "trainer/session/session.h"

namespace bellows {

static void append(Scalars& values, const Scalars& more) {
  values.insert(values.end(), more.begin(), more.end());
}

Gauges::Gauges(const Running& running) : Running(running) {
  if (std::optional<Nvml> gpu = open_nvml(session_.device)) gpu_.emplace(std::move(*gpu));
}

double Gauges::training_s() const {
  return meter_.total_seconds() - meter_.seconds(Phase::eval) - meter_.seconds(Phase::save);
}

void Gauges::begin_update(const BatchCounts& counts) {
  if (epoch_end_s_) epoch_gap_s_ = training_s() - *std::exchange(epoch_end_s_, {});
  trace::count<"data.positions">(counts.positions);
  trace::count<"data.padding">(counts.padding);
  padding_.positions += counts.positions;
  padding_.padding += counts.padding;
  padding_.imbalance = std::max(padding_.imbalance, counts.imbalance);
}

void Gauges::end_epoch() { epoch_end_s_ = training_s(); }

// Returns the means of the terms of the loss over the samples of all ranks.
Scalars Gauges::loss_terms() {
  std::vector<double> sums = session_.loss_terms.take();
  if (!consensus_.alone()) sums = consensus_.means(sums);
  Scalars terms;
  for (const std::string& name : session_.loss_terms.names())
    terms.emplace_back(name, sums[terms.size()] / sums.back());
  return terms;
}

// Returns the costs per update of each rank since the last call, in seconds: waiting for data, and
// waiting for gradients of other ranks. Empty in a world of one.
ScalarLists Gauges::by_rank(double reader_cost) {
  if (consensus_.alone()) return {};
  const int64_t updates = std::max<int64_t>(1, at_.step - std::exchange(step_before_, at_.step));
  const int64_t now = waited_.value(), waited = now - std::exchange(waited_before_, now);
  const double wait = 1e-9 * double(waited) / double(updates);
  const std::vector<double> all = consensus_.gather({reader_cost, wait});
  ScalarLists costs = {{"reader_cost_by_rank", {}}, {"wait_by_rank", {}}};
  for (size_t i = 0; i < all.size(); ++i) costs[i % 2].second.push_back(all[i]);
  return costs;
}

std::vector<double> Gauges::memory_by_rank() const {
  if (consensus_.alone()) return {};
  const auto tensors = double(allocator_stats(session_.device).peak_allocated);
  return consensus_.gather({tensors, peak_resident_bytes()});
}

std::pair<Scalars, ScalarLists> Gauges::take(const LogPoint& window, const StepState& state) {
  Scalars values = loss_terms();
  if (epoch_gap_s_) values.emplace_back("epoch_gap_s", *std::exchange(epoch_gap_s_, {}));
  append(values, session_.tuning.take());
  if (const BatchCounts padded = std::exchange(padding_, {}); padded.positions)
    append(values, {{"padding_share", double(padded.padding) / double(padded.positions)},
                    {"token_imbalance", padded.imbalance}});
  if (window.nonfinite_losses)
    values.emplace_back("nonfinite_losses", double(window.nonfinite_losses));
  if (session_.optimizer->may_skip()) {
    if (plan_.amp.scales()) values.emplace_back("loss_scale", state.loss_scale);
    values.emplace_back("skipped_updates", double(state.skipped));
  }
  append(values, {{"max_mem_allocated", double(allocator_stats(session_.device).peak_allocated)},
                  {"peak_resident_bytes", peak_resident_bytes()},
                  {"cpu_cores", cpu_.latest().used}});
  if (const auto gpu = gpu_ ? gpu_->latest() : std::nullopt)
    append(values, {{"gpu_utilization", gpu->utilization},
                    {"gpu_memory_bytes", gpu->memory_bytes},
                    {"gpu_power_w", gpu->power_w},
                    {"gpu_temperature_c", gpu->temperature_c},
                    {"gpu_sm_clock_mhz", gpu->sm_clock_mhz},
                    {"gpu_throttle", double(gpu->throttle)}});
  ScalarLists lists = by_rank(window.reader_cost);
  if (const auto load = load_.next()) {
    append(values,
           {{"cpu_utilization", load->cpu()}, {"disk_bytes_per_s", load->disk_bytes_per_s}});
    lists.emplace_back("cpu_utilization_by_core", load->cores);
  }
  return {values, lists};
}

}  // namespace bellows
