#include "trainer/verbs/gpu_plan.h"
#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "core/base/output.h"
#include "trainer/verbs/step_work.h"
#include "trainer/verbs/tables.h"

namespace bellows {

namespace {

// Rates that a training step reaches, not those of the data sheet. H200: a device copy of 4.3 TB/s
// and a bf16 product of 8192^3 at 788 TFLOP/s were measured. H100: the same share of its data
// sheet.
struct Card {
  const char* name;
  double copy;                                // bytes/s
  double tensor16, tf32, vector32, vector64;  // FLOP/s of a large product
  // Our kernels stream at this share of a copy, and the convolutions of a model reach this share of
  // a large product. A launch inside a graph takes this long beside its work.
  double stream_share = 0.85, product_share = 0.65, launch_s = 1.8e-6;
};
constexpr Card kCards[] = {{"h100", 3.0e12, 788e12, 390e12, 55e12, 27e12},
                           {"h200", 4.3e12, 788e12, 390e12, 55e12, 27e12}};

double product_rate(const Card& card, DType dtype, bool tf32) {
  return card.product_share * (size_of(dtype) == 2   ? card.tensor16
                               : dtype == DType::f64 ? card.vector64
                               : tf32                ? card.tf32
                                                     : card.vector32);
}

// Work of all calls of one op in one direction.
struct OpRow {
  int64_t calls = 0;
  Cost work;
  double s = 0;
};
using Rows = std::map<std::string, OpRow>;

}  // namespace

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  for (const Card& card : kCards) names.emplace_back(card.name);
  return names;
}

static std::optional<TrainingSetInfo> described(const GpuPlanRequest& request, int64_t samples) {
  if (request.sample.empty()) return {};
  int64_t c = 0, h = 0, w = 0;
  char rest = 0;
  const int read = std::sscanf(request.sample.c_str(), "%ldx%ldx%ld%c", &c, &h, &w, &rest);
  CHECK(read == 3 && std::min({c, h, w}) > 0, "plan: --sample '", request.sample,
        "'; expected channels, height and width, as in 3x224x224");
  const std::vector<float> mean(c, .5f), std(c, .25f);
  return TrainingSetInfo{
      {.sample = {c, h, w}, .classes = request.classes, .mean = mean, .std = std}, samples, false};
}

static Rows rows_of(const StepWork& step, bool tf32, const Card& card) {
  Rows rows;
  for (const auto& [name, dtype, work] : step.items) {
    if (work.flop == 0 && work.bytes == 0) continue;
    OpRow& row = rows[name];
    ++row.calls;
    row.work += work;
    row.s += std::max(work.flop / product_rate(card, dtype, tf32),
                      work.bytes / (card.stream_share * card.copy));
  }
  return rows;
}

static std::string milli(double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); }

void predict_step(const Plan& plan, const GpuPlanRequest& request) {
  const Card& card = *std::ranges::find(kCards, request.gpu, &Card::name);
  const int64_t batch = plan.data.loader.sampler.batch_size;
  const StepWork step = step_work(plan, described(request, batch));
  const Rows rows = rows_of(step, plan.kernels.tf32, card);
  const bool counted = step.launches > 0;
  const int64_t launches = counted ? step.launches : 2 * step.ops;
  OpRow all;
  for (const auto& [name, row] : rows) all.work += row.work, all.s += row.s;
  const double launching_s = double(launches) * card.launch_s, step_s = all.s + launching_s;
  if (request.json) {
    Json ops = Json::array();
    for (const auto& [name, row] : rows)
      ops.push_back({{"op", name},
                     {"calls", row.calls},
                     {"flop", row.work.flop},
                     {"bytes", row.work.bytes},
                     {"s", row.s}});
    const Json line = {{"gpu", card.name},
                       {"batch", batch},
                       {"step_s", step_s},
                       {"ips", double(batch) / step_s},
                       {"flop", all.work.flop},
                       {"bytes", all.work.bytes},
                       {"launches", launches},
                       {"launches_counted", counted},
                       {"launching_s", launching_s},
                       {"stream_bytes_per_s", card.stream_share * card.copy},
                       {"product_share", card.product_share},
                       {"launch_s", card.launch_s},
                       {"ops", ops}};
    say(to_line(line));
    return;
  }
  std::vector<TableRow> table = {{"op", "calls", "GFLOP", "GB", "ms"}};
  const auto line = [&](const std::string& name, const std::string& calls, const Cost& work,
                        double s) {
    table.push_back({name, calls, fmt::format("{:.3f}", 1e-9 * work.flop),
                     fmt::format("{:.4f}", 1e-9 * work.bytes), milli(s)});
  };
  for (const auto& [name, row] : rows) line(name, std::to_string(row.calls), row.work, row.s);
  line("launches", std::to_string(launches), {}, launching_s);
  line("step", "", all.work, step_s);
  say_part(aligned(table, "lrrrr"));
  say(fmt::format("predicted on {}: {} ms a step of {}, ips: {:.0f}", card.name, milli(step_s),
                  batch, double(batch) / step_s));
  say(fmt::format("assumes {:.2f} TB/s, products at {:.0f} % of a large one, {:g} us a launch",
                  1e-12 * card.stream_share * card.copy, 100 * card.product_share,
                  1e6 * card.launch_s));
  if (!counted) say("no CUDA device here, so launches are taken as one per op and pass");
}

}  // namespace bellows
