// trainer ab: its report on the arms' blocks, the order of time slices, and arms that it refuses.
#include "trainer/ab/ab.h"
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>
#include "core/base/philox.h"
#include "plan/toggle.h"
#include "tests/refusal.h"
#include "tests/trainer/runs.h"
#include "tests/trainer/terminal.h"
#include "trainer/ab/rounds.h"

using namespace bellows;
namespace fs = std::filesystem;

namespace {

const Toggle kToggle = {.idea = "",
                        .claim = "twice the speed of light",
                        .cost = "never seen",
                        .sources = "",
                        .footprint = "test.ran",
                        .same = Same::bitwise,
                        .tolerance = 1e-3,
                        .enable = [](Plan&) {},
                        .name = "bellows_test"};

constexpr int kRounds = 5;

// An arm whose blocks of ten steps take `block_ms`, with 2 % of noise that all arms share and 0.3 %
// of its own.
AbArm arm(const std::string& name, double block_ms, int64_t footprint, uint64_t seed) {
  const Philox own({.seed = seed}), shared({.seed = 1234});
  AbArm arm = {.name = name};
  for (int round = 0; round < kRounds; ++round) {
    AbProcess& process = arm.processes.emplace_back();
    process.warmup = {.steps = 10, .wall_s = 1, .cpu_s = 1};
    for (int64_t i = 1; i <= 8; ++i) {
      const auto at = static_cast<uint64_t>(100 * round + i);
      const double noise = 1 + 0.02 * shared.normal(at) + 0.003 * own.normal(at);
      process.blocks.push_back({.steps = 10,
                                .wall_s = 1e-3 * block_ms * noise,
                                .cpu_s = 2e-3 * block_ms,
                                .counters = {{"test.steps", 10 * i}}});
    }
    process.end = {
        std::vector<double>(90, 0.5), {{"test.ran", footprint}}, 2, 1'000'000, 9'000'000};
  }
  return arm;
}

AbResult result_of(double on_ms, int64_t footprint = 90) {
  AbResult result;
  result.toggle = &kToggle;
  result.options.config = "configs/lenet.yaml";
  result.options.overrides = {"seed=2"};
  result.words = " --toggle bellows_test --value on";
  result.planned = kRounds;
  result.machine = {{"cpu", "an abacus"}};
  result.arms = {arm("bellows_test=off", 100, 0, 1), arm("bellows_test=on", on_ms, footprint, 3)};
  result.placebo = arm("bellows_test=off again", 100, 0, 2);
  return result;
}

std::string headline(const AbResult& result) { return bellows::headline(result, result.arms[1]); }

using LossList = std::vector<double>;

AbArm with_losses(const std::vector<LossList>& rounds) {
  AbArm arm;
  for (const LossList& losses : rounds) arm.processes.push_back({.end = {.losses = losses}});
  return arm;
}

// The placebo's losses, then those of the arm with the toggle on: one list per round. The off arm's
// losses are `off` in all rounds.
Finding judged(const Toggle& toggle, const LossList& off, const std::vector<LossList>& placebo,
               const std::vector<LossList>& on) {
  AbResult result;
  result.toggle = &toggle;
  result.arms = {with_losses(std::vector<LossList>(on.size(), off)), with_losses(on)};
  result.placebo = with_losses(placebo);
  return compare_losses(result, result.arms[1]);
}
// Three losses after as many of 1 as are needed to judge.
LossList ending(double a, double b, double c) {
  LossList losses(kFewestSteps, 1);
  losses.insert(losses.end(), {a, b, c});
  return losses;
}
// The same losses in each of three rounds.
Finding judged(const Toggle& toggle, const LossList& off, const LossList& on) {
  return judged(toggle, off, {off, off, off}, {on, on, on});
}

Toggle with_class(Same same) {
  Toggle toggle = kToggle;
  toggle.same = same;
  return toggle;
}

}  // namespace

// ---- time slices

TEST(SliceOrder, ReversesInEverySecondRow) {
  EXPECT_THAT(slice_order(2, 4), ElementsAre(0, 1, 1, 0, 0, 1, 1, 0));
  EXPECT_THAT(slice_order(3, 2), ElementsAre(0, 1, 2, 2, 1, 0));
  EXPECT_THAT(slice_order(3, 0), IsEmpty());
}

TEST(AbProgress, EstimatesTheTimeThatIsLeft) {
  const ArmOptions options = {.blocks = 10, .steps = 5, .warmup = 50};
  EXPECT_EQ(progress_text(options, 3, RoundPlan(4, 0), 0, 0),
            "ab: process 1 of 4, slice 0 of 33, ETA unknown");
  EXPECT_EQ(progress_text(options, 3, RoundPlan(4, 0), 2, 60),  // 2 x 50 of 4 x 3 x (50 + 10 x 5)
            "ab: process 1 of 4, slice 2 of 33, ETA 00:11:00");
}

// ---- rounds

TEST(RoundPlan, DividesABudgetByTheTimeOfTheFirstRound) {
  RoundPlan plan(99, 60);
  EXPECT_FALSE(plan.add(5));
  EXPECT_EQ(plan.planned(), 12);
  EXPECT_FALSE(plan.add(10));
  EXPECT_TRUE(plan.add(15));  // a quarter
  EXPECT_LT(plan.error(), 0.001);
  for (int round = 4; round < 6; ++round) EXPECT_FALSE(plan.add(5 * round));
  EXPECT_TRUE(plan.add(30));
  for (int round = 7; round <= 12; ++round) EXPECT_FALSE(plan.add(5 * round));
  EXPECT_TRUE(plan.finished());
  EXPECT_NEAR(plan.error(), looks_for(12).back().error, 1e-12);

  RoundPlan slower(99, 60);
  slower.add(5);
  for (int round = 2; round < 5; ++round) slower.add(15 * round);
  EXPECT_TRUE(slower.finished());  // another round would take it to 75 s
  RoundPlan few(2, 60);
  few.add(5);
  EXPECT_EQ(few.planned(), 2);
  RoundPlan short_of_time(99, 1);
  short_of_time.add(5);
  EXPECT_EQ(short_of_time.planned(), 1);
  EXPECT_TRUE(short_of_time.finished());
}

TEST(RoundPlan, EndsWhereTheAnswerIsClear) {
  RoundPlan plan(99, 60);
  plan.add(5);
  plan.add(10);
  EXPECT_TRUE(plan.add(15));
  plan.stop();
  EXPECT_TRUE(plan.finished());
  EXPECT_EQ(plan.error(), looks_for(12).front().error);

  EXPECT_TRUE(is_clear(result_of(80)));
  EXPECT_TRUE(is_clear(result_of(100)));  // shown to be equal
  EXPECT_FALSE(is_clear(result_of(99)));
}

// A difference has to exceed the placebo's, as in the verdict.
TEST(RoundPlan, ResolvesNothingBelowTheNoiseOfThePlacebo) {
  AbResult result = result_of(100);
  EXPECT_LT(resolution(result, kRounds), 0.03);
  result.placebo = arm("bellows_test=off again", 110, 0, 2);
  EXPECT_GT(resolution(result, kRounds), 0.1);
}

// ---- findings

TEST(AbFinding, StatesASpeedupWithItsIntervalAndThePlaceboOrThatNoneWasShown) {
  EXPECT_THAT(headline(result_of(80)),
              AllOf(StartsWith("faster: 1.2"), HasSubstr("95 % interval"), HasSubstr("placebo 1.0"),
                    EndsWith(" x, 5 processes a side")));
  EXPECT_THAT(headline(result_of(120)), StartsWith("slower: 0.8"));
  EXPECT_THAT(to_markdown(result_of(100)),
              StartsWith("# bellows_test=off against bellows_test=on\n\n**no difference shown: "));
}

TEST(AbFinding, OfAToggleThatDidNotRunOrRanInBothArmsSaysSo) {
  AbResult result = result_of(80, 0);
  EXPECT_THAT(headline(result), StartsWith("did not run; faster: "));
  const Finding idle = compare_footprints(kToggle, result.arms[0], result.arms[1]);
  EXPECT_FALSE(idle.good);
  EXPECT_THAT(idle.text, HasSubstr("`test.ran` counted 0 with it off and 0 with it on"));
  result = result_of(100);
  EXPECT_TRUE(compare_footprints(kToggle, result.arms[0], result.arms[1]).good);
  result.arms[0].processes[3].end.counters["test.ran"] = 3;
  EXPECT_THAT(to_markdown(result), HasSubstr("**FAILED** ran in both arms"));
}

TEST(AbFinding, HasNoVerdictFromFewProcesses) {
  AbResult result = result_of(50);
  for (AbArm* arm : {&result.arms[0], &result.placebo, &result.arms[1]}) arm->processes.resize(2);
  EXPECT_THAT(headline(result), StartsWith("no conclusion from fewer than 3 processes a side"));
  for (AbArm* arm : {&result.arms[0], &result.placebo, &result.arms[1]}) arm->processes.resize(1);
  EXPECT_THAT(headline(result), HasSubstr("x (no interval); placebo"));
}

// One process in five is slower by a tenth: its blocks agree with each other.
TEST(AbFinding, CountsProcessesAndNotBlocks) {
  AbResult result = result_of(98);
  for (AbBlock& block : result.arms[0].processes[0].blocks) block.wall_s *= 1.1;
  EXPECT_THAT(headline(result), StartsWith("no difference shown: "));
  EXPECT_THAT(to_markdown(result), HasSubstr("- luck of a process: 9"));
}

TEST(AbFinding, TakesTheClockThatItIsTold) {
  AbResult result = result_of(80);
  for (AbProcess& process : result.arms[1].processes)
    for (AbBlock& block : process.blocks) block.cpu_s = 0.4;  // twice that of `off`
  result.options.clock = Clock::cpu;
  EXPECT_THAT(headline(result), StartsWith("slower: 0.5"));
}

TEST(AbFinding, NamesWhatMadeTheMachineBusyAndAClockThatHelps) {
  AbResult result = result_of(100);
  result.busy = {.others = 0.48, .stolen = 0.2, .waited = 0.22};
  EXPECT_THAT(
      headline(result),
      EndsWith("; busy machine: other processes used 48 % of the cores, the hypervisor took "
               "20 % of the cores, threads waited for a core for 22 % of the time; try "
               "--clock cpu"));
  result.one_thread = false;
  EXPECT_THAT(headline(result), EndsWith("; try --clock cpu threads.threads=1, which suits one "
                                         "thread"));
  result.options.clock = Clock::cpu;
  EXPECT_THAT(headline(result), EndsWith("22 % of the time"));
  result.busy = {.others = 0.05, .stolen = 0.01, .waited = 0.02};
  EXPECT_THAT(headline(result), EndsWith(" processes a side"));
}

TEST(AbFinding, SaysThatTheAnswerWasClearEarly) {
  AbResult result = result_of(80);
  result.planned = 12;
  result.clear = true;
  EXPECT_THAT(to_markdown(result),
              HasSubstr("- ended early: the answer was clear after 5 of 12 processes a side\n"));
}

// ---- a busy machine

// libgomp's team and ours wait for each other on a quiet machine, too.
TEST(BusyMachine, IsNotOneWhereARunWaitsForItself) {
  EXPECT_THAT((BusyMachine{.others = 0.01, .stolen = 0.01, .waited = 0.41}).reasons(), IsEmpty());
  EXPECT_THAT((BusyMachine{.others = 0.08, .stolen = 0, .waited = 0.41}).reasons(),
              ElementsAre(HasSubstr("threads waited for a core for 41 % of the time")));
}

// ---- losses

TEST(AbLosses, ThatAreDeclaredBitwiseHaveToBeEqualBitForBitInEveryRound) {
  const double next = std::nextafter(0.5, 1);
  EXPECT_TRUE(judged(kToggle, {1, 0.5}, {1, 0.5}).good);
  const Finding unequal = judged(kToggle, {1, 0.5}, {}, {{1, 0.5}, {1, next}});
  EXPECT_FALSE(unequal.good);
  EXPECT_THAT(unequal.text, HasSubstr("unequal from step 2 on"));
  EXPECT_FALSE(judged(kToggle, {1, 0.5, 0.25}, {1, 0.5}).good);
  EXPECT_FALSE(judged(kToggle, {}, {}).good);
}

// Training amplifies the last bit; the placebo shows by how much and from which step on. A ReLU
// that changes sides parts two runs at once, and which of them is first is chance.
TEST(AbLosses, ThatAreDeclaredCloseMayDivergeAsFarAndAsEarlyAsThePlacebos) {
  const Toggle close = with_class(Same::close);
  const auto all = [](const LossList& losses) { return std::vector<LossList>(3, losses); };
  const LossList half = ending(0.5, 0.5, 0.5), near = ending(0.5, 0.501, 0.5);
  const LossList one = ending(1, 1, 1), late = ending(1, 1, 1.1), early = ending(1.001, 1, 1);
  const LossList shorter(near.begin(), near.end() - 1), flat(kFewestSteps, 1);
  LossList apart = near, last = flat, first = flat, too_far = flat;
  apart.back() = 9;
  last.back() = 1.01;
  first.front() = 1.09;
  too_far.front() = 1.11;
  const struct {
    const char* why;
    LossList off;
    std::vector<LossList> placebo, on;
    bool good;
  } cases[] = {
      {"within ten times", half, {half, near, half}, all(ending(0.5, 0.509, 0.491)), true},
      {"further", half, {half, near, half}, all(ending(0.5, 0.5, 0.511)), false},
      {"not finite", half, {half, near, half}, all(ending(0.5, 0.5, NAN)), false},
      {"earlier in all rounds", one, all(late), all(early), false},
      {"earlier by chance in some", one, all(late), {early, one, early}, true},
      {"too few rounds to tell", one, {late, late}, {early, early}, true},
      {"in the first steps", flat, all(last), all(first), true},
      {"too far in the first steps", flat, all(last), all(too_far), false},
      {"too few steps to tell", {1, 1}, all({1, 1}), all({1.5, 1}), true},
      {"after the end of a run under --time-to", half, all(shorter), all(apart), true},
      {"before that", half, all(near), all(apart), false},
  };
  for (const auto& [why, off, placebo, on, good] : cases)
    EXPECT_EQ(judged(close, off, placebo, on).good, good) << why;
  EXPECT_THAT(
      judged(close, half, {half, near, half}, all(ending(0.5, 0.5, 0.511))).text,
      AllOf(HasSubstr("declared close: the losses of off and on differ by at most 1.1e-02;"),
            HasSubstr("is 11 (step 19)"), HasSubstr("last of 24")));
}

// ---- rounding or an error, in real runs of LeNet

namespace {

constexpr int64_t kTrainedRounds = 3;

Plan small_lenet(Values more) {
  more.merge(from_yaml(R"(
data: {train_size: 320, test_size: 16, batch_size: 16}
optimizer: {lr: 0.05, momentum: 0.9}
eval.every: 0
ckpt.every: 0
log.tensorboard: false
train.epochs: 1
toggles: none
)"));
  return make_config({more}).plan;
}

AbArm trained(const Plan& plan, int64_t mantissa, bool placebo = false) {
  std::vector<LossList> rounds;
  for (int64_t round = 0; round < kTrainedRounds; ++round) {
    Session session(plan);
    nudge_weights(session.parameters, {.round = round, .placebo = placebo, .mantissa = mantissa});
    rounds.push_back(run(session).losses);
  }
  return with_losses(rounds);
}

// The finding about an arm with the options `on`, as if a toggle of class `close` had set them.
Finding close_finding(const Values& off, const Values& on) {
  static const Toggle close = with_class(Same::close);
  const Plan off_plan = small_lenet(off), on_plan = small_lenet(on);
  AbResult result;
  result.toggle = &close;
  result.mantissa = mantissa_bits(on_plan);
  result.arms = {trained(off_plan, result.mantissa), trained(on_plan, result.mantissa)};
  result.placebo = trained(off_plan, result.mantissa, true);
  return compare_losses(result, result.arms[1]);
}

}  // namespace

TEST(AbChaos, TakesOtherKernelsLayoutsAndPrecisionsForRounding) {
  const Values vendor = from_yaml("toggles.vendor_kernels: on");
  for (const auto& [off, on] :
       {std::pair{Values{}, vendor},
        {vendor, from_yaml("{toggles.vendor_kernels: on, toggles.channels_last: on}")},
        {Values{}, from_yaml("toggles.batch_lanes: on")},
        {Values{}, from_yaml("toggles.amp: fp16")}}) {
    const Finding finding = close_finding(off, on);
    EXPECT_TRUE(finding.good) << finding.text;
    EXPECT_THAT(finding.text, Not(HasSubstr("equal bit for bit")));
  }
}

TEST(AbChaos, TakesGradientsOrInputsThatAreWrongByOnePercentForAnError) {
  const auto scaled = [](const char* std) {
    return from_yaml(cat("data.transforms: [{name: normalize, mean: [0.13], std: [", std, "]}]"));
  };
  for (const auto& [off, on] :
       {std::pair{Values{}, Values{{"optimizer.lr", {"0.0505"}}}},  // SGD: scales gradients
        {scaled("0.3"), scaled("0.303")}}) {
    const Finding finding = close_finding(off, on);
    EXPECT_FALSE(finding.good) << finding.text;
  }
}

TEST(AbLosses, ThatAreDeclaredStatisticalEndNearEachOtherAndFinite) {
  const Toggle loose = with_class(Same::statistical);
  EXPECT_TRUE(judged(loose, {2, 1, 0.5, 0.4}, {2.1, 0.8, 0.6, 0.5}).good);
  EXPECT_FALSE(judged(loose, {2, 1, 0.5, 0.4}, {2.1, 2, 2, 2}).good);
  EXPECT_FALSE(judged(loose, {2, 1, 0.5, 0.4}, {2, NAN, 0.5, 0.4}).good);
}

// Evaluations of off, the placebo and on, after equal losses.
TEST(AbEvaluations, AreHeldToThePromiseOfTheToggle) {
  const auto good = [](Same same, double placebo, double on) {
    const Toggle toggle = with_class(same);
    AbResult result;
    result.toggle = &toggle;
    const LossList losses(kFewestSteps, 2);
    result.placebo = with_losses({losses, losses, losses});
    result.arms = {result.placebo, result.placebo};
    for (size_t round = 0; round < 3; ++round) {
      result.arms[0].processes[round].end.evaluation = 1.25;
      result.placebo.processes[round].end.evaluation = placebo;
      result.arms[1].processes[round].end.evaluation = on;
    }
    return compare_evaluations(result, result.arms[1]).good;
  };
  EXPECT_TRUE(good(Same::bitwise, 1.26, 1.25));
  EXPECT_FALSE(good(Same::bitwise, 1.26, 1.2500001));
  EXPECT_TRUE(good(Same::close, 1.2501, 1.2509));
  EXPECT_FALSE(good(Same::close, 1.2501, 1.2512));
  EXPECT_FALSE(good(Same::close, 1.25, 1.2601));
  EXPECT_TRUE(good(Same::statistical, 1.25, 1.4));
  EXPECT_FALSE(good(Same::statistical, 1.25, 1.5));
  EXPECT_FALSE(good(Same::close, 1.25, NAN));
}

TEST(AbReport, PutsTheClaimBesideTheMeasurementAndNamesTheCommand) {
  EXPECT_THAT(to_markdown(result_of(80)),
              AllOf(HasSubstr("- claim: twice the speed of light\n"),
                    HasSubstr("trainer ab --config configs/lenet.yaml --toggle bellows_test "
                              "--value on --processes 10 --blocks 8 --steps 20 --warmup 20 "
                              "seed=2"),
                    HasSubstr("| peak of tensors, MB | 1.00 | 1.00 |"),
                    HasSubstr("- cpu: an abacus\n"), Not(HasSubstr("FAILED"))));
  const Json json = to_json(result_of(80));
  EXPECT_NEAR(json["on"][0]["speedup"]["ratio"].get<double>(), 1.25, 0.02);
}

// An arm on the CPU has no energy.
TEST(AbReport, ShowsTheEnergyOfAStepWhereTheGpuMeasuresIt) {
  EXPECT_THAT(to_markdown(result_of(80)), Not(HasSubstr("energy")));
  AbResult result = result_of(80);
  for (AbProcess& process : result.arms[1].processes)
    for (AbBlock& block : process.blocks) block.energy_j = 3 * double(block.steps);
  EXPECT_THAT(to_markdown(result),
              HasSubstr("| energy of the GPU per step, J: median (quartiles) | - | 3 (3 to 3) |"));
  const Json json = to_json(result);
  EXPECT_EQ(json["on"][0]["processes"][0]["gpu_j_per_step"], std::vector<double>(8, 3));
  EXPECT_FALSE(json["placebo"]["processes"][0].contains("gpu_j_per_step"));
}

// ---- the program

class AbVerb : public Program {
 protected:
  AbVerb() {
    write("tiny.yaml", "toggles: none\ndata: {train_size: 64, test_size: 16, batch_size: 8}\n");
  }
  // Arguments of a verb that compares arms. No word of `words` has a space in it.
  static Args verb(const std::string& words, const Args& more = {}) {
    std::istringstream in(words + " --config tiny.yaml");
    return with({std::istream_iterator<std::string>(in), {}}, more);
  }
  static Args ab(const std::string& words, const Args& more = {}) {
    return verb("ab " + words, more);
  }
  Json report() const { return Json::parse(read("r.json")); }
};

// Both arms of a round start from the same weights, and the placebo from others.
TEST_F(AbVerb, ComparesTwoRunsThatDifferInOneToggleAndAPlacebo) {
  const Ended ended =
      run(ab("--toggle fused_optimizer --processes 3 --steps 20 --blocks 2 --warmup 2 "
             "--report r.md optimizer.lr=0.5"));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("fused_optimizer=off against fused_optimizer=on"));
  EXPECT_THAT(ended.out, Not(HasSubstr("no conclusion")));
  EXPECT_THAT(ended.out + ended.err, Not(ContainsRegex("ETA|\r|\033"))) << "no terminal";
  const Json report = this->report();
  const Json& on = report.at("on").at(0);
  EXPECT_TRUE(on.at("losses_hold").get<bool>()) << ended.out;
  EXPECT_TRUE(on.at("footprint_holds").get<bool>()) << ended.out;
  EXPECT_EQ(on.at("counters_per_step").at("optim.fused_launches"), Json({0.0, 1.0}));
  EXPECT_EQ(on.at("processes").size(), 3);
  EXPECT_EQ(on.at("processes").at(2).at("wall_s_per_step").size(), 2);
  EXPECT_LT(on.at("processes").at(0).at("cpu_s_waiting").get<double>(), 0.01);
  const Json& apart = on.at("losses_apart");
  EXPECT_EQ(apart.at("arms").back(), 0);
  EXPECT_GT(apart.at("placebo").back().get<double>(), 0);
  EXPECT_LT(apart.at("placebo").at(0).get<double>(), 1e-5);
  EXPECT_TRUE(fs::exists(folder_ / "r.md"));
  EXPECT_TRUE(fs::is_empty(folder_ / "runs"));
}

TEST_F(AbVerb, ComparesAnEvaluationAtTheEnd) {
  const std::string out = succeed(
      ab("--toggle drop_conv_bias --processes 3 --steps 8 --blocks 2 --warmup 2 --report r.md",
         {"model={name: layers, layers: [{name: conv2d, out: 4}, batch_norm, relu, flatten, {name: "
          "linear, out: 10}]}",
          "optimizer.lr=0.001"}));
  EXPECT_THAT(out, HasSubstr("- evaluation: the test loss is "));
  EXPECT_TRUE(report().at("on").at(0).at("evaluations_hold").get<bool>()) << out;
}

// 2 blocks of 400 steps of 20 ms would take 16 s each time.
TEST_F(AbVerb, SpendsABudgetSaysWhatItAllowsAndShortensTheBlocks) {
  EXPECT_THAT(succeed(ab("--toggle fused_optimizer --budget 8s --blocks 2 --warmup 2 --steps 400 "
                         "data.sim_latency_us=20000")),
              AllOf(ContainsRegex("ab: 8 s allow [0-9]+ processes"),
                    ContainsRegex(" --blocks [12] --steps [0-9]+ --warmup 2"),
                    Not(HasSubstr("--steps 400"))));
  EXPECT_THAT(succeed(ab("--toggle fused_optimizer --budget 6s --measure epoch")),
              HasSubstr(" --budget 6s --blocks 2 --measure epoch"));
}

TEST_F(AbVerb, MeasuresWholeEpochsWithTheirEvaluation) {
  EXPECT_THAT(succeed(ab("--toggle eval_no_grad --measure epoch --blocks 1 --processes 1")),
              AllOf(HasSubstr("\nno conclusion from fewer than 3 processes a side"),
                    HasSubstr("`eval.untracked_ops` counted 0 with it off and ")));
}

TEST_F(AbVerb, ComparesSeveralValuesAtOnceWithoutTheTogglesThatNeedThisOne) {
  const std::string held = "off in all arms, because they need num_workers: ";
  EXPECT_THAT(succeed(ab("--toggle num_workers --value 1,2 --processes 1 --steps 1 --blocks 1 "
                         "--warmup 1 --report r.md toggles=default toggles.prefetch_factor=4")),
              AllOf(StartsWith("ab: " + held), HasSubstr("\n- " + held),
                    HasSubstr("\nnum_workers=0 against num_workers=1, num_workers=2\n"),
                    HasSubstr("\nnum_workers=2\n"), HasSubstr(" --value 1,2 ")));
  EXPECT_EQ(report().at("held").size(), 3);
}

TEST_F(AbVerb, TimesRunsUntilTheyReachATarget) {
  const std::string command = "--toggle fused_optimizer --processes 2 --report r.md --time-to ";
  EXPECT_THAT(
      succeed(ab(command + "accuracy=0")),
      AllOf(
          HasSubstr("\nsamples per run: median (smallest, largest)\n  fused_optimizer=off: 64 (64"),
          HasSubstr("--processes 2 --time-to accuracy=0\n"), HasSubstr("and equal bit for bit"),
          HasSubstr("\nwall time per run, ms: geometric mean of all seeds (95 % ")));
  const Json off = report().at("off");
  EXPECT_EQ(off.at("processes").at(0).at("wall_s_per_run").size(), 1);
  const double a = off["processes"][0]["wall_s_per_run"][0],
               b = off["processes"][1]["wall_s_per_run"][0];
  EXPECT_NEAR(off.at("mean_s_per_run"), std::sqrt(a * b), 1e-9);
  EXPECT_LE(off.at("mean_s_per_run_interval").at(0), std::min(a, b));
  EXPECT_GE(off.at("mean_s_per_run_interval").at(1), std::max(a, b));
  EXPECT_THAT(succeed(ab(command + "accuracy=1")),
              HasSubstr("\nno conclusion: 6 runs ended before accuracy=1"));
}

// Also ladder and sweep.
TEST_F(AbVerb, KeepsWhatWasMeasuredBeforeASignal) {
  for (const char* words : {"ab --toggle fused_optimizer", "ladder --toggles fused_optimizer",
                            "sweep --key num_workers=0,1"}) {
    const Ended ended = run_until(
        " allow ", SIGINT, verb(cat(words, " --budget 9999s --steps 1 --blocks 1 --warmup 1")));
    EXPECT_EQ(ended.code, 130) << words << ended.err;
    EXPECT_THAT(ended.out, ContainsRegex("- ended early: interrupted by signal 2 after "
                                         "[0-9]+ of [0-9]+ processes a side\n"));
  }
  const auto first_round = start(ab("--toggle fused_optimizer --steps 1000000"));
  ASSERT_TRUE(eventually([&] { return !children_of(first_round->process()).empty(); }));
  first_round->send(SIGTERM);
  const Ended ended = first_round->end();
  EXPECT_EQ(ended.code, 143);
  EXPECT_THAT(ended.err,
              HasSubstr("ab: interrupted by SIGTERM before each arm had run one process"));
}

TEST_F(AbVerb, RemovesTheFoldersOfThoseThatWereKilledAndNothingElse) {
  const auto start_one = [&] {
    auto running = start(ab("--toggle fused_optimizer --steps 1000000"));
    EXPECT_TRUE(eventually([&] { return !children_of(running->process()).empty(); }));
    return running;
  };
  const auto runs = [&] { return std::distance(fs::directory_iterator(folder_ / "runs"), {}); };
  write("runs/ab-abcdef/plan.yaml", "a run of that name");
  const auto killed = start_one();
  killed->send(SIGKILL);
  killed->end();
  EXPECT_EQ(runs(), 2);
  const auto alive = start_one();
  EXPECT_EQ(runs(), 2);
  succeed(ab("--toggle fused_optimizer --processes 1 --steps 1 --blocks 1 --warmup 1"));
  EXPECT_EQ(runs(), 2) << "the other one is at work";
  EXPECT_TRUE(fs::exists(folder_ / "runs/ab-abcdef/plan.yaml"));
}

TEST_F(AbVerb, DrawsProgressOnATerminalAndClearsIt) {
  const Terminal terminal;
  const auto running =
      start(ab("--toggle fused_optimizer --steps 1 --blocks 1 --processes 2 --warmup 1"),
            terminal.in_child());
  const Ended ended = terminal.end(*running);
  EXPECT_EQ(ended.code, 0) << ended.out;
  const std::string line = "\r\033[Kab: process ";
  EXPECT_THAT(ended.out, AllOf(HasSubstr(line + "1 of 2, slice 0 of 6, "),
                               HasSubstr(line + "2 of 2, slice 6 of 6, "),
                               HasSubstr("ETA 00:00:00\r\033[K\r\nfused_optimizer=off against")));
}

TEST_F(AbVerb, RefusesWhatMakesNoComparison) {
  const std::pair<const char*, const char*> cases[] = {
      {"--toggle nu_workers", "unknown toggle 'nu_workers', the nearest one is 'num_workers'"},
      {"--toggle num_workers --value 0", "num_workers=0 is off"},
      {"--toggle num_workers --value many", "'many' is not"},
      {"--toggle persistent_workers", "persistent_workers needs num_workers"},
      {"--toggle num_workers --value 1,2,1", "'1' is named twice"},
      {"--toggle num_workers --blocks 0", "--blocks"},
      {"--toggle num_workers --budget 5", "write seconds or minutes, such as 90s"},
      {"--toggle num_workers --budget=-1s", "is not a duration"},
      {"--toggle num_workers --budget 5s --processes 2", "--processes"},
      {"--toggle pin_memory device=cpu", "pin_memory=on: no effect without a GPU"},
      {"--toggle fused_optimizer --report here.txt", "here.md"},
      {"--toggle fused_optimizer --report no/such/r.md", "no folder"},
      {"--toggle fused_optimizer --value on --arm-folder x", "processes that ab starts itself"},
      {"--toggle num_workers --measure epoch --steps 5",
       "--steps has no effect with --measure epoch, whose blocks are epochs"},
      {"--toggle num_workers --time-to accuracy=0.5 --blocks 2",
       "--blocks has no effect with --time-to, whose blocks are runs"},
      {"--toggle num_workers --time-to accuracy", "such as accuracy=0.98"},
      {"", "either --toggle or --against"},
      {"--toggle fused_optimizer optimzer.lr=1", "optimzer.lr"},
  };
  for (const auto& [words, why] : cases) expect_refusal(ab(words), 2, why);
}

TEST_F(AbVerb, ComparesTwoConfigurationsThatDifferInOneOption) {
  const auto other = [&](const std::string& more) {
    write("other.yaml", "base: tiny.yaml\n" + more);
  };
  const std::string against = "--against other.yaml --processes 1 --steps 1 --blocks 1 --warmup 1 ";
  other("optimizer: {lr: 0.5}\n");
  const std::string out = succeed(ab(against)), difference = "optimizer.lr is 0.1 and 0.5\n";
  EXPECT_THAT(out, AllOf(HasSubstr("\ntiny.yaml against other.yaml\n"),
                         HasSubstr("ab: " + difference), HasSubstr("\n- difference: " + difference),
                         HasSubstr("ab --config tiny.yaml --against other.yaml "),
                         Not(HasSubstr("footprint"))));
  other("optimizer: {lr: 0.5}\nseed: 7\n");
  expect_refusal(ab(against), 2, "2 differences");
  succeed(ab(against + "--allow-many"));
  other("name: same\n");
  expect_refusal(ab(against), 2, "describe the same run");
  expect_refusal(ab(against + "--toggle num_workers"), 2, "--toggle");
}
