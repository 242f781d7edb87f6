// The trace of `trainer profile`: the rules by which Perfetto imports JSON, and what it holds.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include "labs/profile/analysis.h"
#include "tests/labs/trace_rules.h"
#include "tests/trainer/program.h"

using namespace bellows;
using testing::AllOf;
using testing::Contains;
using testing::IsEmpty;

TEST_F(Program, TraceKeepsTheRulesAndHoldsStepsPhasesOpsThreadsAndCores) {
  succeed({"profile", "--steps", "3:13", "--trace", "t.json", "model=lenet", "device=cpu",
           "threads.threads=1", "data={name: digits, train_size: 400, batch_size: 16}",
           "toggles.num_workers=2", "data.sim_latency_us=60000"});
  const Json trace = Json::parse(read("t.json"));
  EXPECT_THAT(trace_complaints(trace), IsEmpty());
  std::vector<std::string> steps, threads;
  std::map<std::string, int> phases, cores, loads;
  int forward = 0, backward = 0, flows = 0;
  for (const Json& e : trace["traceEvents"]) {
    const std::string ph = e["ph"], name = e["name"];
    if (ph == "M" && name == "thread_name") threads.push_back(e["args"]["name"]);
    if (ph == "C" && name.starts_with("thread ")) {
      ++loads[name.substr(7, name.rfind(' ') - 7)];
      EXPECT_LE(e["args"]["running %"], 100);
      EXPECT_GE(e["args"]["runnable %"], 0);
    } else if (ph == "C") {
      ++cores[name];
      EXPECT_LE(e["args"]["busy %"], 100);
      EXPECT_GE(e["args"]["busy %"], 0);
    }
    flows += ph == "f";
    if (ph != "X") continue;
    if (name.starts_with("ProfilerStep#")) steps.push_back(name);
    ++phases[name];
    if (e["args"].value("Module Hierarchy", "") != "conv2" || e["cat"] != "cpu_op") continue;
    EXPECT_EQ(e["args"]["Input Dims"][1], Json({16, 6, 5, 5}));
    ++(name.ends_with("_backward") ? backward : forward);
  }
  ASSERT_EQ(steps.size(), 10U);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(steps[i], cat("ProfilerStep#", 3 + i));
  for (const char* phase : {"forward", "backward", "optimizer", "zero_grad"})
    EXPECT_EQ(phases[phase], 10) << phase;
  EXPECT_EQ(phases["input"], 10);
  EXPECT_EQ(forward, backward);
  EXPECT_GE(forward, 10);
  EXPECT_GE(flows, 10 * 7) << "each op to its backward";
  EXPECT_THAT(threads, AllOf(Contains(testing::StartsWith("compute ")),
                             Contains(testing::StartsWith("loader/0 ")),
                             Contains(testing::StartsWith("loader/1 "))));
  EXPECT_GE(phases["make_batch"], 1) << "on the loader's threads";
  for (const char* thread : {"compute", "loader/0", "loader/1"})
    EXPECT_GE(loads[thread], 1) << thread << " up to the end of the window";
  EXPECT_FALSE(cores.empty());
  for (const auto& [core, count] : cores) EXPECT_GE(count, 2) << core << " in 300 ms";
}
