// trainer plan: what it measures of one rank, and what it prints and writes.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "core/config/config.h"
#include "labs/plan/forecast.h"
#include "plan/toggle.h"
#include "tests/trainer/program.h"

using namespace bellows;
using testing::AllOf;
using testing::HasSubstr;

static const std::vector<std::string> kTiny = {"model={name: mlp, hidden: [8]}",
                                               "data={name: digits, train_size: 64, batch_size: 8}",
                                               "device=cpu"};

TEST(ComputeProfile, GradientsOfLaterLayersAreReadyEarlier) {
  const Plan plan = make_config({parse_overrides(kTiny)}).plan;
  const ComputeProfile profile = measure_profile(plan, 3);
  std::vector<int64_t> sizes;
  double before = 0;
  for (const auto& [size, ready_s] : profile.gradients) {
    sizes.push_back(size.numel);
    EXPECT_GE(ready_s, before);
    before = ready_s;
  }
  EXPECT_THAT(sizes, testing::SizeIs(4));
  EXPECT_EQ(sizes[0] + sizes[1], 8 * 10 + 10) << "the last layer";
  EXPECT_GT(profile.step_s, before);
}

TEST_F(Program, PlanPrintsATableOf80Columns) {
  const Args args = with({"plan", "--ranks", "8..4096", "--updates", "2"}, kTiny);
  const std::string out = succeed(args);
  expect_80_columns(out);
  EXPECT_THAT(out, AllOf(HasSubstr("\n    8  "), HasSubstr("\n 4096  "),
                         HasSubstr("the first holds all gradients")));
}

TEST_F(Program, PlanPredictsFromTheNetworkOfItsCommandLine) {
  const Args args = with({"plan", "--ranks", "1..4", "--updates", "2", "--json", "--latency-us",
                          "1000", "--gbps", "1e9", "--step-ms", "50", "--algorithm", "ring"},
                         kTiny);
  const std::string out = succeed(args);
  const Json object = Json::parse(out), rows = object["rows"];
  EXPECT_DOUBLE_EQ(object["step_s"], 0.05);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0]["efficiency"], 1) << "one rank";
  EXPECT_NEAR(rows[1]["exposed_s"], 0.002, 1e-6) << "one bucket, two hops";
  EXPECT_NEAR(rows[2]["exposed_s"], 0.006, 1e-6) << "six hops";
}

TEST_F(Program, PlanRefusesImpossibleRanks) {
  for (const char* ranks : {"0", "8..4", "x", "8..", "70000"})
    expect_refusal({"plan", "--ranks", ranks}, 2, "--ranks: expected a number from 1 to 65536");
  expect_refusal({"plan"}, 2, "plan: measures one rank, and the launcher started 2", [] {
    for (const auto& [name, value] : {std::pair("RANK", "0"),
                                      {"WORLD_SIZE", "2"},
                                      {"LOCAL_RANK", "0"},
                                      {"LOCAL_WORLD_SIZE", "2"},
                                      {"MASTER_ADDR", "127.0.0.1"},
                                      {"MASTER_PORT", "1"}})
      setenv(name, value, 1);
  });
}
