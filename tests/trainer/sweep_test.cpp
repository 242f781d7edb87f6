// trainer sweep: its arms, the law of loader workers, its report, and the program with its
// processes.
#include "trainer/ab/sweep.h"
#include <nlohmann/json.hpp>
#include "plan/toggle.h"
#include "tests/place.h"
#include "tests/refusal.h"
#include "tests/trainer/program.h"

using namespace bellows;

namespace {

ArmOptions on_lenet() { return {.verb = "sweep", .config = source_dir() + "/configs/lenet.yaml"}; }

SweepResult arms(const Names& keys) {
  std::vector<SweepKey> swept;
  for (const std::string& key : keys) swept.push_back(parse_sweep(key));
  return sweep_arms(on_lenet(), swept);
}

// Measures the law's times for each arm; every update lowers the loss by 0.01.
void measure(SweepResult& result, const LoaderLaw& law, int64_t updates = 40) {
  result.planned = 3;
  const auto add = [&](AbArm& arm, int64_t workers, int64_t batch) {
    for (int round = 0; round < 3; ++round) {
      AbProcess& process = arm.processes.emplace_back();
      const double wall_s = 10 * law.batch_cost(workers) * (1 + 0.001 * round);
      for (int block = 0; block < 2; ++block)
        process.blocks.push_back({.steps = 10,
                                  .wall_s = wall_s,
                                  .cpu_s = 1.5 * wall_s,
                                  .reader_s = wall_s - 10 * law.compute_s});
      for (int64_t i = 0; i < updates; ++i)
        process.end.losses.push_back(2 - 0.01 * static_cast<double>(i));
      process.end.samples = updates * batch;
      process.end.peak_tensor_bytes = 5'000'000;
      process.end.peak_resident_bytes = 70'000'000;
    }
  };
  for (size_t i = 0; i < result.arms.size(); ++i)
    add(result.arms[i], result.facts[i].workers, result.facts[i].batch);
  add(result.placebo, result.facts[0].workers, result.facts[0].batch);
}

std::vector<WorkerCost> costs(const LoaderLaw& law, const std::vector<int64_t>& workers) {
  std::vector<WorkerCost> measured;
  for (const int64_t w : workers)
    measured.push_back({w, law.batch_cost(w), law.batch_cost(w) - law.compute_s});
  return measured;
}

}  // namespace

// ---- the law

TEST(LoaderLaw, IsFoundInItsOwnTimesIfAnArmWaits) {
  const LoaderLaw law = {.load_s = 0.0485, .compute_s = 0.01166};
  for (const std::vector<int64_t>& workers :
       std::vector<std::vector<int64_t>>{{0, 1, 2, 4, 8, 16}, {1, 2, 8}, {0, 2}, {1, 2, 4}, {0}}) {
    const auto found = fit_law(costs(law, workers));
    ASSERT_TRUE(found) << testing::PrintToString(workers);
    EXPECT_NEAR(found->load_s, law.load_s, 1e-9) << testing::PrintToString(workers);
    EXPECT_NEAR(found->compute_s, law.compute_s, 1e-9) << testing::PrintToString(workers);
  }
  EXPECT_FALSE(fit_law(costs(law, {5, 8})));
}

// ---- the arms

TEST(SweepArms, AreAllCombinationsOfTheValues) {
  const SweepResult result = arms({"num_workers=1,2", "data.batch_size=8,16,32"});
  Names names;
  for (const AbArm& arm : result.arms) names.push_back(arm.name);
  EXPECT_THAT(names, ElementsAre("num_workers=1 batch_size=8", "num_workers=1 batch_size=16",
                                 "num_workers=1 batch_size=32", "num_workers=2 batch_size=8",
                                 "num_workers=2 batch_size=16", "num_workers=2 batch_size=32"));
  EXPECT_THAT(result.arms[5].set, ElementsAre("toggles.num_workers=2", "data.batch_size=32"));
  EXPECT_EQ(result.facts[5].batch, 32);
  EXPECT_EQ(result.facts[5].workers, 2);
  EXPECT_EQ(result.placebo.set, result.arms[0].set);
  EXPECT_THAT(
      parse_sweep("data.transforms=[{name: resize, size: 8}, normalize],[normalize]").values,
      ElementsAre("[{name: resize, size: 8}, normalize]", "[normalize]"));
}

TEST(SweepArms, ThatAreNoRunsOrTheSameRunAreRefused) {
  const auto refused_for = [](const std::string& key) {
    return complaint(Exit::usage, [&] { arms({key}); });
  };
  EXPECT_THAT(refused_for("data.batch_size"), HasSubstr("has no values"));
  EXPECT_THAT(refused_for("data.batch_size=8"), HasSubstr("two values or more"));
  EXPECT_THAT(refused_for("data.batchsize=8,16"), HasSubstr("batch_size"));
  EXPECT_THAT(refused_for("data.batch_size=8,8"), HasSubstr("the same run as batch_size=8"));
  EXPECT_THAT(refused_for("amp=off,fp64"), HasSubstr("'fp64' is not"));
  EXPECT_THAT(refused_for("pin_memory=off,on"), HasSubstr("pin_memory=on: pin_memory: no effect"));
}

// ---- the report

TEST(SweepReport, PutsThePredictionBesideTheMeasurementAndMarksTheKnee) {
  SweepResult result = arms({"num_workers=0,1,2,4,8"});
  measure(result, {.load_s = 0.0485, .compute_s = 0.01166});
  const std::string text = to_markdown(result);
  EXPECT_THAT(text, AllOf(HasSubstr("L = 48.55 ms"), HasSubstr("C = 11.66 ms"),
                          HasSubstr("W = ceil(L / C) = 5.")));
  EXPECT_THAT(text, ContainsRegex("\\| 0 +\\| +60.21 \\| +60.22 \\| 1.000 \\|"));
  EXPECT_THAT(text, ContainsRegex("\\| 0 +\\| +60.22 \\| +48.56 \\| +1063 \\| +5.00 "
                                  "\\| +70.00 \\| +150 \\|"));
  EXPECT_THAT(text, Not(HasSubstr("## Batch size")));
  expect_80_columns(text.substr(0, text.find("    trainer sweep")));
  const Json json = to_json(result);
  EXPECT_EQ(json.at("kind"), "sweep");
  EXPECT_EQ(json.at("laws").at(0).at("knee"), 5);
  EXPECT_EQ(json.at("arms").size(), 5u);
  result = arms({"num_workers=0,5"});
  measure(result, {.load_s = 0.0485, .compute_s = 0.01166});
  EXPECT_THAT(to_markdown(result), HasSubstr("| 5 (knee) |"));
}

TEST(SweepReport, HasALawForEachValueOfTheOtherKeyAndNoneForAnArmThatChoosesItsWorkers) {
  SweepResult result = arms({"prefetch_factor=1,2", "num_workers=1,2,auto"});
  measure(result, {.load_s = 0.03, .compute_s = 0.01});
  const std::vector<SweptLaw> laws = swept_laws(result);
  ASSERT_EQ(laws.size(), 2u);
  EXPECT_THAT(laws[0].arms, ElementsAre(0, 1));
  EXPECT_THAT(laws[1].arms, ElementsAre(3, 4));
  ASSERT_TRUE(laws[0].law);
  EXPECT_NEAR(laws[0].law->load_s, 0.03, 1e-3);
  EXPECT_THAT(to_markdown(result), AllOf(HasSubstr("With toggles.prefetch_factor=1:"),
                                         HasSubstr("With toggles.prefetch_factor=2:")));
}

TEST(SweepReport, ComparesBatchSizesPerSampleAndTheirLossesAtEqualSamplesUpdatesAndTime) {
  SweepResult result = arms({"data.batch_size=10,40"});
  measure(result, {.load_s = 0.01, .compute_s = 0.01});
  for (AbProcess& process : result.arms[1].processes)
    for (AbBlock& block : process.blocks) block.wall_s *= 2;
  EXPECT_NEAR(speedup_over_first(result, result.arms[1]).ratio, 2, 1e-6)
      << "four times the samples a step, which takes twice the time";
  result.facts[0].work = Cost{300, 100};
  const std::string text = to_markdown(result);
  EXPECT_THAT(text, AllOf(HasSubstr("after 400 samples, after 40 updates, and\nafter 0.4 s"),
                          HasSubstr(" 3.00 |"), HasSubstr(" unknown |")));
  // The means of the last tenth: update 10; updates 37 to 40; updates 19 and 20 of the slower arm.
  EXPECT_THAT(text, ContainsRegex("40 .* 1.9100 \\| +1.6250 \\| +1.8150 \\|"));
}

// ---- the program

class SweepVerb : public Program {
 protected:
  Args sweep(const Args& more) const {
    write("tiny.yaml",
          "model: {name: mlp, hidden: [8]}\n"
          "data: {name: digits, train_size: 64, test_size: 16, batch_size: 8}\n");
    return with({"sweep", "--config", "tiny.yaml", "--steps", "2", "--warmup", "2"}, more);
  }
  Json report() const { return Json::parse(read(folder_ / "r.json")); }
};

// A planted latency of 20 ms makes the loader the limit, whatever else the machine does.
TEST_F(SweepVerb, MeasuresTheLawOfWorkersInProcesses) {
  EXPECT_THAT(succeed(sweep({"--key", "num_workers=0,4", "--processes", "3", "--blocks", "2",
                             "--report", "r.md", "data.sim_latency_us=20000"})),
              AllOf(HasSubstr("sweep: 3 arms in 3 rounds of 6 steps, about 00:00:"),
                    HasSubstr("\nWorkers\n")));
  const Json json = report();
  EXPECT_EQ(json.at("placebo").at("processes").size(), 3u);
  const Json& alone = json.at("arms").at(0);
  EXPECT_GE(alone.at("reader_cost").get<double>(), 0.02);
  EXPECT_GE(alone.at("batch_cost").get<double>(), alone.at("reader_cost").get<double>());
  EXPECT_NEAR(alone.at("ips").get<double>(), 8 / alone.at("batch_cost").get<double>(), 1e-6);
  EXPECT_GT(alone.at("peak_resident_bytes").get<int64_t>(), 1'000'000);
}

TEST_F(SweepVerb, MeasuresBatchSizesWithTheirWorkAndLosses) {
  EXPECT_THAT(succeed(sweep({"--key", "data.batch_size=4,16,1000", "--processes", "1", "--blocks",
                             "2", "--report", "r.md"})),
              HasSubstr("losses of each arm after 24 samples, "));
  const Json arms = report().at("arms"), &small = arms.at(0), &large = arms.at(1);
  const auto value = [](const Json& arm, const char* key) { return arm.at(key).get<double>(); };
  // Twice the product of the batch with each weight, forward and for each gradient; the images
  // need none.
  const double weights = 784 * 8, last = 8 * 10;
  EXPECT_EQ(small.at("flop"), 4 * 2 * (2 * weights + 3 * last));
  EXPECT_EQ(large.at("flop"), 16 * 2 * (2 * weights + 3 * last));
  EXPECT_GT(large.at("peak_tensor_bytes"), small.at("peak_tensor_bytes"));
  EXPECT_LT(value(small, "flop") / value(small, "bytes"),
            value(large, "flop") / value(large, "bytes"))
      << "weights are read once for more samples";
  EXPECT_NEAR(value(arms.at(2), "ips") * value(arms.at(2), "batch_cost"), 64, 1e-6)
      << "samples of a batch that is larger than the set";
}

// An epoch has eight steps, and its first batch is 10 ms away. Each arm crosses three ends of
// epochs, so that one slow moment of the machine does not move the median.
TEST_F(SweepVerb, MeasuresTheGapBetweenEpochs) {
  succeed(sweep({"--key", "persistent_workers=off,on", "--processes", "1", "--blocks", "13",
                 "--report", "r.md", "toggles.num_workers=1", "data.sim_latency_us=10000"}));
  EXPECT_THAT(read("r.md"), ContainsRegex("CPU % \\| +gap \\|"));
  const Json json = report();
  for (const Json& arm : json.at("arms")) {
    const double gap = arm.at("epoch_gap_s");
    EXPECT_GE(gap, 0.005) << arm.at("name");
    EXPECT_LT(gap, 9 * arm.at("batch_cost").get<double>()) << arm.at("name");
  }
}

// A planted sleep that went on in the pauses of a process would make it 20 times as fast.
TEST_F(SweepVerb, PausesDoNotLoadBatches) {
  write("slow.yaml", "base: tiny.yaml\ndata: {train_size: 640, sim_latency_us: 20000}\n");
  sweep({});  // writes tiny.yaml
  succeed({"sweep", "--config", "slow.yaml", "--key", "num_workers=0,4", "--processes", "1",
           "--blocks", "4", "--steps", "4", "--warmup", "30", "--report", "r.md"});
  EXPECT_LT(report().at("arms").at(1).at("speedup_over_first").at("ratio").get<double>(), 10);
}

TEST_F(SweepVerb, MeasuresImageSizesInPixels) {
  EXPECT_THAT(
      succeed(sweep({"--key", "data.transforms.0.size=14,28", "--processes", "1", "--blocks", "1",
                     "--report", "r.md", "data.transforms=[{name: resize, size: 8}, normalize]"})),
      AllOf(HasSubstr("\nImage size\n"), HasSubstr("Mpixels/s")));
  const Json arms = report().at("arms");
  EXPECT_EQ(arms.at(0).at("pixels"), 14 * 14);
  EXPECT_EQ(arms.at(1).at("pixels"), 28 * 28);
}

TEST_F(SweepVerb, RefusesWhatIsNoSweep) {
  expect_refusal(sweep({}), 2, "--key");
  expect_refusal(sweep({"--key", "seed=1,2", "--key", "num_workers=1,2", "--key", "amp=off,fp16"}),
                 2, "the most are two");
  expect_refusal(sweep({"--key", "num_workers=0,1", "toggles.prefetch_factor=2"}), 2,
                 "sweep: num_workers=0: ");
}
