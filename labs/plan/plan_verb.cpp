// trainer plan --config FILE: forecast of an update on many ranks (labs/plan/forecast.h).
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "core/base/output.h"
#include "core/base/words.h"
#include "core/config/config.h"
#include "labs/plan/compute_profile.h"
#include "plan/plan.h"
#include "plan/toggle.h"
#include "trainer/verbs/tables.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

namespace {
struct PlanLine {
  std::string config, ranks = "8..4096", algorithm = "faster";
  Arguments overrides;
  int64_t ranks_per_node = 1, updates = 10;
  double latency_us = 20, gbps = 25, inside_latency_us = 5, inside_gbps = 200, step_ms = 0;
  bool json = false;
};

struct RankRow {
  int64_t ranks;
  Forecast planned, without_overlap, compressed, best;
  double best_mb;
};
}  // namespace

static void declare(CommandLine& line, PlanLine& given) {
  line.add_config(given.config, given.overrides);
  line.add_option("--ranks", given.ranks, "a number of ranks, or FIRST..LAST, doubling")
      .shows_default();
  const auto positive = [&](const char* name, double& variable, const char* help) {
    line.add_option(name, variable, help).positive().shows_default();
  };
  positive("--latency-us", given.latency_us, "of a message between machines");
  positive("--gbps", given.gbps, "Gbit/s of a machine's link");
  line.add_option("--ranks-per-node", given.ranks_per_node, "on each machine")
      .range(1, 1024)
      .shows_default();
  positive("--inside-latency-us", given.inside_latency_us, "of a message inside a machine");
  positive("--inside-gbps", given.inside_gbps, "Gbit/s of a link inside a machine");
  line.add_option("--algorithm", given.algorithm, "of the collectives; Gloo has rings only")
      .one_of({"ring", "tree", "faster"})
      .shows_default();
  line.add_option("--updates", given.updates, "to measure, after a warm-up")
      .range(1, 10000)
      .shows_default();
  line.add_option("--step-ms", given.step_ms,
                  "scales the measured times to an update of that length, for another device")
      .positive();
  line.add_flag("--json", given.json, "print one JSON object, times in seconds");
  line.add_note(
      "Measures one rank of the config here, then predicts. The batch grows with the ranks. "
      "Neglects late ranks and what communication takes from computation, so it is a bound.");
}

static std::vector<int64_t> ranks_in(const std::string& text) {
  const size_t dots = text.find("..");
  const std::string_view all = text;
  constexpr int64_t kMost = 65536;
  const int64_t first = whole_number(all.substr(0, dots), kMost),
                last = dots == text.npos ? first : whole_number(all.substr(dots + 2), kMost);
  CHECK(first > 0 && last >= first,
        "plan: --ranks: expected a number from 1 to 65536, or two as in "
        "8..4096, got '",
        text, "'");
  std::vector<int64_t> ranks;
  for (int64_t n = first; n <= last; n *= 2) ranks.push_back(n);
  return ranks;
}

static ReduceAlgorithm algorithm_of(const std::string& name) {
  return name == "ring"   ? ReduceAlgorithm::ring
         : name == "tree" ? ReduceAlgorithm::tree
                          : ReduceAlgorithm::faster;
}

static Network network_of(const PlanLine& given) {
  const auto link = [](double latency_us, double gbps) {
    return Link{1e-6 * latency_us, 1e9 / 8 * gbps};
  };
  return {link(given.latency_us, given.gbps), link(given.inside_latency_us, given.inside_gbps),
          given.ranks_per_node, algorithm_of(given.algorithm)};
}

static RankRow row_of(int64_t ranks, const ComputeProfile& profile, const DistOptions& options,
                      const Network& network) {
  const auto of = [&](const DistOptions& changed) {
    return forecast(profile, changed, ranks, network);
  };
  DistOptions late = options, halved = options, best = options;
  late.overlap = false;
  halved.compress = true;
  best.bucket_mb = best_bucket_mb(profile, options, ranks, network);
  return {ranks, of(options), of(late), of(halved), of(best), best.bucket_mb};
}

static std::string percent(double part, double whole) {
  return fmt::format("{:.1f} %", 100 * part / whole);
}

static std::string ms(double seconds) { return fmt::format("{:.2f}", 1e3 * seconds); }

static void print(const std::vector<RankRow>& rows, const ComputeProfile& profile,
                  const PlanLine& given, const DistOptions& options, int64_t ends) {
  const double step = profile.step_s, backward_end = profile.gradients.back().ready_s;
  say(cat("one rank here: ", ms(step), " ms an update"));
  say(cat(count_of(std::ssize(profile.gradients), "gradient"),
          fmt::format(", {:.2f} MiB, ready from ", profile.bytes() / (1 << 20)),
          ms(profile.gradients.front().ready_s), " to ", ms(backward_end), " ms"));
  say(fmt::format("network: {} us, {} Gbit/s between machines of {}; algorithm: {}",
                  given.latency_us, given.gbps, count_of(given.ranks_per_node, "rank"),
                  given.algorithm));
  std::vector<TableRow> table = {{"ranks", "step ms", "efficiency", "exposed ms", "no overlap",
                                  "bf16", "best bucket", "step ms"}};
  for (const RankRow& r : rows)
    table.push_back({std::to_string(r.ranks), ms(r.planned.step_s), percent(step, r.planned.step_s),
                     ms(r.planned.exposed_s), percent(step, r.without_overlap.step_s),
                     percent(step, r.compressed.step_s), fmt::format("{:.4g} MiB", r.best_mb),
                     ms(r.best.step_s)});
  say_part(aligned(table, "rrrrrrrr"));
  const std::string buckets =
      fmt::format("buckets of {:.4g} and {:.4g} MiB", options.first_bucket_mb, options.bucket_mb);
  if (profile.bytes() <= options.first_bucket_mb * (1 << 20))
    return say(cat(buckets, ": the first holds all gradients, so nothing overlaps"));
  say(ends ? cat(buckets, ": from ", ends, " ranks on, backward no longer hides them")
           : cat(buckets, ": backward hides all but the last one, up to ", rows.back().ranks,
                 " ranks"));
}

static Json json_of(const RankRow& r, const ComputeProfile& profile, DistOptions options,
                    const Network& network) {
  Json ladder = Json::array();
  for (const double mb : bucket_ladder(profile)) {
    options.bucket_mb = mb;
    const Forecast f = forecast(profile, options, r.ranks, network);
    ladder.push_back({{"bucket_mb", mb}, {"step_s", f.step_s}, {"exposed_s", f.exposed_s}});
  }
  return {{"ranks", r.ranks},
          {"step_s", r.planned.step_s},
          {"efficiency", profile.step_s / r.planned.step_s},
          {"communication_s", r.planned.communication_s},
          {"exposed_s", r.planned.exposed_s},
          {"no_overlap_step_s", r.without_overlap.step_s},
          {"bf16_step_s", r.compressed.step_s},
          {"best_bucket_mb", r.best_mb},
          {"best_step_s", r.best.step_s},
          {"ladder", ladder}};
}

static int run_plan(CommandLine& line, const Arguments& args) {
  PlanLine given;
  declare(line, given);
  if (!line.read(args)) return 0;
  const std::vector<int64_t> ranks = ranks_in(given.ranks);
  const Config config = make_config(sources_of(given.config, given.overrides));
  DistOptions options = config.plan.dist;
  options.bucketed = options.overlap = true;  // one rank turns their toggles off
  const Network network = network_of(given);
  ComputeProfile profile = measure_profile(config.plan, given.updates);
  if (given.step_ms) {
    const double factor = 1e-3 * given.step_ms / profile.step_s;
    profile.step_s *= factor;
    for (GradientTime& gradient : profile.gradients) gradient.ready_s *= factor;
  }
  std::vector<RankRow> rows;
  for (const int64_t n : ranks) rows.push_back(row_of(n, profile, options, network));
  const int64_t ends = overlap_ends(profile, options, ranks.back(), network);
  if (!given.json) return print(rows, profile, given, options, ends), 0;
  Json object = {{"step_s", profile.step_s},
                 {"first_ready_s", profile.gradients.front().ready_s},
                 {"backward_end_s", profile.gradients.back().ready_s},
                 {"bytes", profile.bytes()},
                 {"overlap_ends", ends ? Json(ends) : Json()},
                 {"rows", Json::array()}};
  for (const RankRow& r : rows) object["rows"].push_back(json_of(r, profile, options, network));
  say(to_line(object));
  return 0;
}

static const AddVerb plan_verb({"plan", "predicts an update on many ranks",
                                "trainer plan --config configs/lenet.yaml --ranks 8..64",
                                run_plan});

}  // namespace bellows
