// trainer ladder: which toggles are steps, what its report says, and the program with its
// processes.
#include "trainer/ab/ladder.h"
#include <nlohmann/json.hpp>
#include "plan/toggle.h"
#include "tests/place.h"
#include "tests/refusal.h"
#include "tests/trainer/program.h"
#include "trainer/ab/arm_report.h"
#include "trainer/ab/rounds.h"

using namespace bellows;

namespace {

ArmOptions on_lenet() {
  return {.verb = "ladder",
          .config = source_dir() + "/configs/lenet.yaml",
          .overrides = {"device=cpu"}};
}

Names names_of(const LadderToggles& toggles) {
  Names names;
  for (const LadderToggle& t : toggles) names.push_back(t.toggle->name);
  return names;
}

size_t place_of(const std::string& name, const Names& names) {
  return static_cast<size_t>(std::ranges::find(names, name) - names.begin());
}

// Adds `rounds` processes of two blocks, each of ten steps of `step_ms`, with a little luck.
void measure(AbArm& arm, double step_ms, const Counters& counters = {}, int rounds = 4) {
  for (int round = 0; round < rounds; ++round) {
    AbProcess& process = arm.processes.emplace_back();
    for (int block = 1; block <= 2; ++block) {
      Counters so_far;
      for (const auto& [name, per_step] : counters) so_far[name] = 10 * block * per_step;
      const double luck = 1 + 0.001 * ((round + block) % 3);
      process.blocks.push_back({.steps = 10, .wall_s = 0.01 * step_ms * luck, .counters = so_far});
      process.end.counters = so_far;
    }
  }
}

// vendor_kernels halves 100 ms, set_to_none never runs, fused_optimizer takes 40 to 25 ms.
LadderResult measured() {
  LadderResult result = ladder_arms(
      on_lenet(), plan_ladder(on_lenet(), {"vendor_kernels", "set_to_none", "fused_optimizer"}));
  result.planned = 4;
  measure(result.placebo, 100);
  measure(result.arms[0], 100);  // plain
  measure(result.arms[1], 50, {{"kernel.vendor_calls", 7}});
  measure(result.arms[2], 50, {{"kernel.vendor_calls", 7}});
  measure(result.arms[3], 25, {{"kernel.vendor_calls", 7}, {"optim.fused_launches", 1}});
  measure(result.arms[4], 75);  // without the first toggle
  measure(result.arms[5], 25);
  return result;
}

}  // namespace

// ---- the plan

TEST(LadderPlan, AddsEachToggleAfterThoseThatItNeedsAndSaysWhyOthersAreLeftOut) {
  const LadderPlan plan = plan_ladder(on_lenet(), {});
  const Names names = names_of(plan.toggles);
  EXPECT_GT(names.size(), 12u);
  for (size_t i = 0; i < names.size(); ++i)
    for (const std::string& need : plan.toggles[i].toggle->needs)
      if (find_toggle(need)) {
        EXPECT_LT(place_of(need, names), i) << names[i] << " needs " << need;
      }
  EXPECT_THAT(plan.reasons.at("no effect without a GPU"),
              AllOf(Contains("pin_memory"), Contains("cuda_graph")));
  EXPECT_THAT(plan.reasons.at("no effect with a single rank"), Contains("overlap_allreduce"));
  EXPECT_THAT(plan.reasons.at("not in toggles: all"), Contains("recompute"));
  size_t all = names.size();
  for (const auto& [reason, left_out] : plan.reasons) all += left_out.size();
  EXPECT_EQ(all, toggles().size());
}

TEST(LadderPlan, TakesTheTogglesThatItIsGivenInTheirOrder) {
  const LadderPlan plan = plan_ladder(on_lenet(), {"fused_optimizer", "num_workers=2", "amp=fp16"});
  EXPECT_THAT(settings_of(plan.toggles), ElementsAre("toggles=none", "toggles.fused_optimizer=on",
                                                     "toggles.num_workers=2", "toggles.amp=fp16"));
  const auto refused_for = [](const Names& wanted) {
    return refusal([&] { plan_ladder(on_lenet(), wanted); });
  };
  EXPECT_THAT(refused_for({"fused_optimiser"}), HasSubstr("nearest one is 'fused_optimizer'"));
  EXPECT_THAT(refused_for({"amp=fp16", "amp=fp16"}), HasSubstr("is named twice"));
  EXPECT_THAT(refused_for({"pin_memory"}), HasSubstr("no effect without a GPU"));
  EXPECT_THAT(refused_for({"ring_queues", "num_workers"}), HasSubstr("without num_workers"));
  EXPECT_THAT(refused_for({"num_workers=0"}), HasSubstr("changes nothing"));
  EXPECT_THAT(refused_for({"num_workers=many"}), HasSubstr("'many' is not"));
}

TEST(LadderPlan, LeavesOutAToggleWithThoseThatNeedIt) {
  const LadderPlan plan =
      plan_ladder(on_lenet(), {"num_workers", "fused_optimizer", "prefetch_factor"});
  EXPECT_THAT(names_of(left_out(plan.toggles, 0)), ElementsAre("fused_optimizer"));
  EXPECT_THAT(names_of(left_out(plan.toggles, 1)), ElementsAre("num_workers", "prefetch_factor"));
}

TEST(LadderPlan, DropsTogglesThatNeverRanUnlessAnotherOneCoversOrNeedsThem) {
  LadderPlan plan = plan_ladder(on_lenet(), {"fused_add_act", "fused_bn_act", "fused_bn_add_act",
                                             "caching_allocator", "preallocate"});
  AbArm top;
  top.processes.push_back({.end = {.counters = {{"fuse.norm_add_act", 3}, {"alloc.dry_runs", 1}}}});
  drop_idle(plan, top);
  EXPECT_THAT(names_of(plan.toggles),
              ElementsAre("fused_add_act", "fused_bn_add_act", "caching_allocator", "preallocate"));
  EXPECT_THAT(plan.reasons.at("never ran with all of them on"), ElementsAre("fused_bn_act"));
}

// ---- the estimate

TEST(Pilot, EstimatesTheDurationAndFitsTheStepsToTheBudget) {
  const Pilot pilot = {.start_s = 0.3, .step_s = 0.01};
  ArmOptions options = {.processes = 3, .blocks = 4};
  EXPECT_DOUBLE_EQ(pilot.round_s(options, 10), 10 * (0.5 + 0.8));
  EXPECT_EQ(pilot.text(options, 10), "10 arms in 3 rounds of 100 steps, about 00:00:39");
  const auto fitted = [&](const Pilot& p) {
    ArmOptions fit = options;
    p.fit_all(fit, 10);
    return std::vector{fit.warmup, fit.blocks, fit.steps};
  };
  EXPECT_THAT(fitted(pilot), ElementsAre(20, 4, 20)) << "no budget";
  options.budget_s = 1000;
  EXPECT_EQ(pilot.text(options, 10), "10 arms in 76 rounds of 100 steps, about 00:16:28");
  EXPECT_THAT(fitted(pilot), ElementsAre(20, 4, 12)) << "4 x 12 steps take as long as the start";

  options.budget_s = 5;
  EXPECT_THAT(fitted(pilot), ElementsAre(8, 2, 4)) << "less than usual, for a round of all arms";
  options.budget_s = 2;
  EXPECT_EQ(refusal([&] { fitted(pilot); }),
            "ab: --budget: 2 s are too short for one process of each of 10 arms, about 00:00:03 "
            "(a step takes 0.01 s, a start 0.3 s); raise the budget or compare fewer arms");
  ArmOptions brief = options;
  EXPECT_EQ(pilot.fit(brief, 10), 5u);
  const Pilot careful = {.start_s = 0.3, .step_s = 0.01, .usable = 0.6};
  EXPECT_EQ(careful.fit(brief, 10), 3u) << "of the 6 for which 2 s have time";
  options.budget_s = 1000;

  const Pilot slow = {.start_s = 0.65, .step_s = 0.1};
  EXPECT_THAT(fitted(slow), ElementsAre(10, 4, 4)) << "0.65 + 1 s of start, 1.6 s of steps";
  EXPECT_THAT(fitted({.start_s = 0, .step_s = 0.1}), ElementsAre(10, 2, 5)) << "not 4 x 2 steps";
  options.warmup = 60;
  EXPECT_THAT(fitted(slow), ElementsAre(60, 4, 16)) << "as the user has chosen";
  options.steps = 1;
  EXPECT_THAT(fitted(slow), ElementsAre(60, 4, 1));
}

// ---- the report

TEST(LadderReport, SaysWhatRanAndWhatChanged) {
  const std::string text = to_markdown(measured());
  EXPECT_THAT(text, HasSubstr("x (95 % interval "));
  EXPECT_THAT(text, ContainsRegex("\\+ vendor_kernels +\\|.* 2.000 \\(.*\\) \\* \\| +2.00 "
                                  "\\| +ran \\|"));
  EXPECT_THAT(text, ContainsRegex("\\+ set_to_none +\\|.* 1.000 \\(.*\\)   \\| +2.00 \\| "
                                  "never ran \\|"));
  EXPECT_THAT(text, AllOf(HasSubstr("- vendor_kernels: `kernel.vendor_calls` 0 -> 7\n"),
                          HasSubstr("- set_to_none: none\n"),
                          HasSubstr("- fused_optimizer: `optim.fused_launches` 0 -> 1\n")));
  EXPECT_THAT(text, HasSubstr("    + fused_optimizer        ############\n"));
  expect_80_columns(text.substr(0, text.find("    trainer ladder")));
  const Json json = to_json(measured());
  EXPECT_EQ(json.at("kind"), "ladder");
  EXPECT_EQ(json.at("steps").at(1).at("ran"), false);
  for (const auto& [arm, slowdown] : {std::pair(0, 3), {1, 1}, {2, 2}})
    EXPECT_NEAR(json["without"][arm]["slowdown"]["ratio"].get<double>(), slowdown, 0.01) << arm;
}

// ---- the program

class LadderVerb : public Program {
 protected:
  Args ladder(const Args& more) const {
    write("tiny.yaml", "data: {train_size: 64, test_size: 16, batch_size: 8}\n");
    return with({"ladder", "--config", "tiny.yaml", "--steps", "2", "--blocks", "2"}, more);
  }
};

TEST_F(LadderVerb, ClimbsInProcessesAndEachStepMovesItsOwnCounters) {
  const std::string out = succeed(ladder({"--warmup", "2", "--processes", "3", "--toggles",
                                          "num_workers=2,fused_optimizer", "--report", "r.md"}));
  EXPECT_THAT(out, HasSubstr("ladder: 5 arms in 3 rounds of 6 steps, about 00:00:"));
  EXPECT_EQ(out.substr(out.find("\ntiny.yaml") + 1), terminal_text(read(folder_ / "r.md")));
  const Json report = Json::parse(read(folder_ / "r.json"));
  const Json& steps = report.at("steps");
  ASSERT_EQ(steps.size(), 2u);
  for (const Json& step : steps) EXPECT_TRUE(step.at("ran").get<bool>()) << step.at("toggle");
  EXPECT_EQ(steps[0].at("processes").size(), 3u);
  EXPECT_TRUE(steps[0].at("counters_per_step").contains("data.worker_batches"));
  EXPECT_FALSE(steps[0].at("counters_per_step").contains("optim.fused_launches"));
  EXPECT_EQ(steps[1].at("counters_per_step").at("optim.fused_launches"), Json({0.0, 1.0}));
  EXPECT_EQ(report.at("without").at(0).at("name"), "- num_workers");
}

TEST_F(LadderVerb, RefusesWhatIsNoLadder) {
  expect_refusal(ladder({"toggles.amp=fp16"}), 2, "toggles.amp: each arm sets the toggles itself");
  expect_refusal(ladder({"--toggles", "pin_memory", "device=cpu"}), 2, "no effect without a GPU");
  expect_refusal(ladder({"--budget", "0.01s"}), 2, "ladder: --budget: 0.01 s were spent before ");
  const Ended ended =
      run(ladder({"--toggles", "fused_optimizer", "data.name=mnist", "data.root=/no"}));
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.err, HasSubstr("ladder: plain ended with exit code 3 after 0 time slices"));
}
