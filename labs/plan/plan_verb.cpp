// trainer plan --config FILE: forecast of an update on many ranks (labs/plan/forecast.h).
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "core/base/output.h"
#include "core/base/words.h"
#include "core/config/config.h"
#include "labs/plan/forecast.h"
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

static Network network_of(const PlanLine& given) {
  static const std::map<std::string, ReduceAlgorithm> algorithms = {
      {"ring", ReduceAlgorithm::ring},
      {"tree", ReduceAlgorithm::tree},
      {"faster", ReduceAlgorithm::faster}};
  const auto link = [](double latency_us, double gbps) {
    return Link{1e-6 * latency_us, 1e9 / 8 * gbps};
  };
  return {link(given.latency_us, given.gbps), link(given.inside_latency_us, given.inside_gbps),
          given.ranks_per_node, algorithms.at(given.algorithm)};
}

static Json row_of(int64_t ranks, const ComputeProfile& profile, const DistOptions& options,
                   const Network& network) {
  DistOptions late = options, halved = options, bucketed = options;
  late.overlap = false;
  halved.compress = true;
  const auto of = [&](const DistOptions& changed) {
    return forecast(profile, changed, ranks, network);
  };
  const auto with_buckets_of = [&](double mb) {
    bucketed.bucket_mb = mb;
    return of(bucketed);
  };
  const Forecast planned = of(options);
  const double best_mb = best_bucket_mb(profile, options, ranks, network);
  Json ladder = Json::array();
  for (const double mb : bucket_ladder(profile)) {
    const Forecast f = with_buckets_of(mb);
    ladder.push_back({{"bucket_mb", mb}, {"step_s", f.step_s}, {"exposed_s", f.exposed_s}});
  }
  return {{"ranks", ranks},
          {"step_s", planned.step_s},
          {"efficiency", profile.step_s / planned.step_s},
          {"communication_s", planned.communication_s},
          {"exposed_s", planned.exposed_s},
          {"no_overlap_step_s", of(late).step_s},
          {"bf16_step_s", of(halved).step_s},
          {"best_bucket_mb", best_mb},
          {"best_step_s", with_buckets_of(best_mb).step_s},
          {"ladder", ladder}};
}

static std::string ms(double seconds) { return fmt::format("{:.2f}", 1e3 * seconds); }

static void print(const Json& rows, const ComputeProfile& profile, const PlanLine& given,
                  const DistOptions& options, int64_t ends) {
  say(cat("one rank here: ", ms(profile.step_s), " ms an update"));
  say(cat(count_of(std::ssize(profile.gradients), "gradient"),
          fmt::format(", {:.2f} MiB, ready from ", profile.bytes() / (1 << 20)),
          ms(profile.gradients.front().ready_s), " to ", ms(profile.gradients.back().ready_s),
          " ms"));
  say(fmt::format("network: {} us, {} Gbit/s between machines of {}; algorithm: {}",
                  given.latency_us, given.gbps, count_of(given.ranks_per_node, "rank"),
                  given.algorithm));
  std::vector<TableRow> table = {{"ranks", "step ms", "efficiency", "exposed ms", "no overlap",
                                  "bf16", "best bucket", "step ms"}};
  for (const Json& r : rows) {
    const auto efficiency = [&](const char* step_s) {
      return fmt::format("{:.1f} %", 100 * profile.step_s / r[step_s].get<double>());
    };
    table.push_back({r["ranks"].dump(), ms(r["step_s"]), efficiency("step_s"), ms(r["exposed_s"]),
                     efficiency("no_overlap_step_s"), efficiency("bf16_step_s"),
                     fmt::format("{:.4g} MiB", r["best_bucket_mb"].get<double>()),
                     ms(r["best_step_s"])});
  }
  say_part(aligned(table, "rrrrrrrr"));
  const std::string buckets =
      fmt::format("buckets of {:.4g} and {:.4g} MiB", options.first_bucket_mb, options.bucket_mb);
  if (profile.bytes() <= options.first_bucket_mb * (1 << 20))
    return say(cat(buckets, ": the first holds all gradients, so nothing overlaps"));
  say(ends ? cat(buckets, ": from ", ends, " ranks on, backward no longer hides them")
           : cat(buckets, ": backward hides all but the last one, up to ",
                 rows.back()["ranks"].get<int64_t>(), " ranks"));
}

static int run_plan(CommandLine& line, const Arguments& args) {
  PlanLine given;
  declare(line, given);
  if (!line.read(args)) return 0;
  const std::vector<int64_t> ranks = ranks_in(given.ranks);
  const Config config = make_config(read_sources(given.config, given.overrides));
  DistOptions options = config.plan.dist;
  options.bucketed = options.overlap = true;  // one rank turns their toggles off
  const Network network = network_of(given);
  ComputeProfile profile = measure_profile(config.plan, given.updates);
  if (given.step_ms) {
    const double factor = 1e-3 * given.step_ms / profile.step_s;
    profile.step_s *= factor;
    for (GradientTime& gradient : profile.gradients) gradient.ready_s *= factor;
  }
  Json rows = Json::array();
  for (const int64_t n : ranks) rows.push_back(row_of(n, profile, options, network));
  const int64_t ends = overlap_ends(profile, options, ranks.back(), network);
  if (!given.json) return print(rows, profile, given, options, ends), 0;
  const Json object = {{"step_s", profile.step_s},
                       {"first_ready_s", profile.gradients.front().ready_s},
                       {"backward_end_s", profile.gradients.back().ready_s},
                       {"bytes", profile.bytes()},
                       {"overlap_ends", ends ? Json(ends) : Json()},
                       {"rows", rows}};
  say(to_line(object));
  return 0;
}

static const AddVerb plan_verb({"plan", "predicts an update on many ranks",
                                "trainer plan --config configs/lenet.yaml --ranks 8..64",
                                run_plan});

}  // namespace bellows
