#include "core/config/yaml.h"
#include "trainer/session/planted_load.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include "core/base/trace.h"
#include "core/config/config.h"
#include "tests/data/files.h"
#include "tests/trainer/program.h"
#include "trainer/session/session.h"

using namespace bellows;
using testing::HasSubstr;

static Plan planted(const std::string& yaml) {
  return load(Plan{}, parse_yaml("model: {name: mlp, hidden: [8]}\n"
                                 "data: {train_size: 64, test_size: 8, batch_size: 8}\n" +
                                     yaml,
                                 "test"));
}

// ---- loading

static std::vector<int64_t> latencies(BatchOptions options, uint64_t seed = 1) {
  std::vector<int64_t> us;
  for (int64_t batch = 0; batch < 10'000; ++batch)
    us.push_back(planted_us(options, seed, 3, batch));
  return us;
}

static double mean_of(const std::vector<int64_t>& us) {
  return double(std::reduce(us.begin(), us.end())) / double(us.size());
}

TEST(PlantedLoading, KeepsItsMeanUnderJitter) {
  EXPECT_THAT(latencies({.sim_latency_us = 1000}), testing::Each(1000));
  for (const Jitter jitter : {Jitter::uniform, Jitter::exponential}) {
    const auto us = latencies({.sim_latency_us = 1000, .sim_jitter = jitter});
    EXPECT_NEAR(mean_of(us), 1000, 30);
    EXPECT_NE(us[0], us[1]);
  }
  const auto most =
      std::ranges::max(latencies({.sim_latency_us = 1000, .sim_jitter = Jitter::uniform}));
  EXPECT_LE(most, 2000);
}

TEST(PlantedLoading, IsSlowForAShareOfTheBatches) {
  const auto us = latencies({.sim_latency_us = 1000, .sim_slow = {0.1, 20}});
  EXPECT_NEAR(double(std::ranges::count(us, 20'000)), 1000, 100);
  EXPECT_EQ(std::ranges::count(us, 20'000) + std::ranges::count(us, 1000), 10'000);
}

TEST(PlantedLoading, IsAFunctionOfSeedEpochAndBatch) {
  const BatchOptions options = {.sim_latency_us = 1000, .sim_jitter = Jitter::exponential};
  EXPECT_EQ(latencies(options, 7), latencies(options, 7));
  EXPECT_NE(latencies(options, 7), latencies(options, 8));
  EXPECT_NE(planted_us(options, 7, 0, 5), planted_us(options, 7, 1, 5));
}

TEST(PlantedLoading, OptionsThatContradictAreRefused) {
  EXPECT_THAT(complaint(Exit::usage, [] { planted("sim.load: 2"); }), HasSubstr("sim.compute"));
  EXPECT_THAT(complaint(Exit::usage, [] { planted("data.sim_slow: [2, 3]"); }),
              HasSubstr("a share up to 1"));
  EXPECT_THAT(complaint(Exit::usage,
                        [] {
                          Session(
                              planted("sim: {compute: 1000, load: 2}\n"
                                      "data.sim_latency_us: 5\ndevice: cpu"));
                        }),
              HasSubstr("leave one out"));
}

// ---- computing

TEST(PlantedComputing, FillsAnUpdateUpToItsTime) {
  const int64_t begin = trace::now_ns();
  compute_until({.compute = 3000}, begin);
  EXPECT_GE(trace::now_ns(), begin + 3'000'000);
  // An update that has taken longer is left alone.
  const trace::Counters before = trace::counters();
  compute_until({}, begin);
  EXPECT_FALSE(trace::moved_since(before).contains("sim.updates"));
}

TEST(PlantedComputing, IsMeasuredWhereItIsAutomatic) {
  Plan plan = planted("sim: {compute: auto, load: 2}");
  EXPECT_EQ(plan.sim.compute, kAutoCompute);
  EXPECT_EQ(planted_latency_us(plan), 0);
  settle_planted_load(plan);
  EXPECT_GE(plan.sim.compute, 10'000);
  EXPECT_EQ(planted_latency_us(plan), 2 * plan.sim.compute);
  const int64_t found = plan.sim.compute;
  settle_planted_load(plan);  // found already
  EXPECT_EQ(plan.sim.compute, found);
}

TEST(PlantedComputing, IsNamedWithItsLoading) {
  EXPECT_EQ(planted_load(planted("sim: {compute: 12000, load: 2.5}\ndata.sim_slow: [0.05, 12]")),
            "planted load: an update computes for 12 ms at least, loading a batch takes 30 ms, 2.5 "
            "times as long, 5 % of the batches take 12 times as long");
  EXPECT_EQ(planted_load(planted("")), "");
}

// ---- the program

using PlantedRun = Program;

TEST_F(PlantedRun, NamesItsLoadInTheLogAndInReports) {
  const Args load = {"sim.compute=4000", "sim.load=0.5"};
  EXPECT_THAT(succeed(tiny(load)), HasSubstr("planted load: an update computes for 4 ms"));
  write("c.yaml", "data: {train_size: 64, test_size: 16, batch_size: 8}\n");
  const std::string out = succeed(with(
      {"ab", "--config", "c.yaml", "--toggle", "fused_loss", "--processes", "1", "--blocks", "1",
       "--steps", "2", "--warmup", "2", "--report", "r.md", "sim.compute=auto", "sim.load=0.5"},
      {}));
  EXPECT_THAT(out, HasSubstr("- planted load: an update computes for "));
  EXPECT_THAT(Json::parse(read("r.json")).at("command").get<std::string>(),
              HasSubstr(" sim.compute=1"));
}
