#include "trainer/session/planted_load.h"
#include <nlohmann/json.hpp>
#include <numeric>
#include "core/config/yaml.h"
#include "tests/data/files.h"
#include "tests/trainer/program.h"
#include "trainer/session/session.h"

using namespace bellows;

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

TEST(PlantedLoading, KeepsItsMeanAndIsAFunctionOfSeedEpochAndBatch) {
  EXPECT_THAT(latencies({.sim_latency_us = 1000}), testing::Each(1000));
  for (const Jitter jitter : {Jitter::uniform, Jitter::exponential}) {
    const BatchOptions options = {.sim_latency_us = 1000, .sim_jitter = jitter};
    const auto us = latencies(options, 7);
    EXPECT_NEAR(double(std::reduce(us.begin(), us.end())) / 10'000, 1000, 30);
    if (jitter == Jitter::uniform) {
      EXPECT_LE(std::ranges::max(us), 2000);
    }
    EXPECT_EQ(latencies(options, 7), us);
    EXPECT_NE(latencies(options, 8), us);
    EXPECT_NE(planted_us(options, 7, 0, 5), planted_us(options, 7, 1, 5));
  }
  const auto slow = latencies({.sim_latency_us = 1000, .sim_slow = {0.1, 20}});
  EXPECT_NEAR(double(std::ranges::count(slow, 20'000)), 1000, 100);
  EXPECT_EQ(std::ranges::count(slow, 20'000) + std::ranges::count(slow, 1000), 10'000);
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

// ---- the program

using PlantedRun = Program;

TEST_F(PlantedRun, NamesItsLoadInTheLogAndInReports) {
  EXPECT_THAT(
      succeed(
          tiny({"sim.compute=4000", "sim.load=2.5", "data.sim_slow=[0.05, 3]", "log={every: 1}"})),
      HasSubstr("planted load: an update computes for 4 ms at least, loading a batch takes 10 ms, "
                "2.5 times as long, 5 % of the batches take 3 times as long"));
  for (const Json& row : rows("runs/run", "train")) EXPECT_GE(row["batch_cost"], 0.004) << row;
  write("c.yaml", "data: {train_size: 64, test_size: 16, batch_size: 8}\n");
  const std::string out = succeed({"ab", "--config", "c.yaml", "--toggle", "fused_loss",
                                   "--processes", "1", "--blocks", "1", "--steps", "2", "--warmup",
                                   "2", "--report", "r.md", "sim.compute=auto", "sim.load=0.5"});
  EXPECT_THAT(out, HasSubstr("- planted load: an update computes for "));
  EXPECT_THAT(Json::parse(read("r.json")).at("command").get<std::string>(),
              HasSubstr(" sim.compute=1"));
}
