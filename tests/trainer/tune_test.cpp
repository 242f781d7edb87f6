// trainer tune: which changes it tries, and the program with its processes.
#include "trainer/ab/tune.h"
#include <nlohmann/json.hpp>
#include "core/config/config.h"
#include "plan/toggle.h"
#include "tests/place.h"
#include "tests/trainer/program.h"

using namespace bellows;

namespace {

TuneOptions on_lenet(const Names& overrides) {
  TuneOptions options;
  options.verb = "tune";
  options.config = source_dir() + "/configs/lenet.yaml";
  options.overrides = overrides;
  options.overrides.emplace_back("device=cpu");
  return options;
}

Names names_of(const TuneResult& result) {
  Names names;
  for (const Change& change : result.changes) names.push_back(change.name());
  return names;
}

}  // namespace

// ---- the changes

TEST(TuneChanges, AreWhatIsOffAndOtherValues) {
  const Names names = names_of(find_changes(on_lenet({"toggles.num_workers=2"})));
  for (const char* name : {"num_workers=0", "num_workers=1", "num_workers=4", "preallocate=on"})
    EXPECT_THAT(names, Contains(name));
  for (const char* name :
       {"num_workers=2", "batch_lanes=on", "batch_lanes=off", "recompute=blocks"})
    EXPECT_THAT(names, Not(Contains(name)));
}

TEST(TuneChanges, LowerThePrecisionOnlyIfTheyMayAndSayWhatIsNotTried) {
  TuneOptions options = on_lenet({"deterministic=on"});
  const TuneResult result = find_changes(options);
  EXPECT_THAT(result.left_out.at("computes in fewer bits; --precision allows it"),
              Contains("amp=fp16"));
  EXPECT_THAT(result.left_out.at("no effect with a single rank"), Contains("ddp=on"));
  EXPECT_THAT(names_of(result), Not(Contains("kernel_autotune=benchmark")));
  options.precision = true;
  EXPECT_THAT(names_of(find_changes(options)), Contains("amp=fp16"));
}

TEST(TuneChanges, AreWrittenWithWhatTheyNeedWhateverTheCommandLineSays) {
  TuneResult result = find_changes(on_lenet({"toggles.num_workers=0", "seed=7"}));
  result.gains = true;
  result.kept = {&*std::ranges::find(result.changes, "prefetch_factor=4", &Change::name)};
  std::map<std::string, std::string> lines;
  for (const ConfigLine& line : settings_of(result)) lines[line.key] = line.value;
  EXPECT_EQ(lines.at("toggles.prefetch_factor"), "4");
  EXPECT_EQ(lines.at("toggles.num_workers"), "1");
  EXPECT_EQ(lines.at("seed"), "7");
}

// ---- the program

class TuneVerb : public Program {
 protected:
  Args tune(const Args& more) const {
    write("tiny.yaml", "data: {train_size: 64, test_size: 16, batch_size: 8}\n");
    return with({"tune", "--config", "tiny.yaml", "--out", "fast.yaml", "--report", "r.md"}, more);
  }
};

// A batch sleeps for 8 ms and computes for 0.1 ms, so workers gain on any machine. prefetch_factor
// brings workers, too.
TEST_F(TuneVerb, FindsWorkersWhereLoadingWaits) {
  const std::string out =
      succeed(tune({"--budget", "12s", "toggles.num_workers=0", "data.sim_latency_us=8000"}));
  const Json report = Json::parse(read("r.json"));
  ASSERT_TRUE(report.at("gains").get<bool>()) << out;
  EXPECT_TRUE(report.at("changes").at(0).at("kept").get<bool>());
  EXPECT_GT(report.at("changes").at(0).at("gain").at("ratio").get<double>(), 1.2);
  EXPECT_THAT(read("r.html"), HasSubstr("pages.tune = "));

  const std::string yaml = read("fast.yaml");
  EXPECT_THAT(yaml, AllOf(StartsWith("# trainer tune --config tiny.yaml --budget 12s "),
                          HasSubstr("\nbase: tiny.yaml\n"), HasSubstr("\n  num_workers: ")));
  EXPECT_NE(make_config(read_sources(folder_ / "fast.yaml", {})).toggles.at("num_workers").text,
            "0");
  EXPECT_THAT(succeed({"--config", "fast.yaml", "--print-config"}),
              HasSubstr("sim_latency_us: 8000"));
}

TEST_F(TuneVerb, WritesWhatItKnowsAfterASignal) {
  const Ended ended = run_until("tune: round 1", SIGINT, tune({"--budget", "9999s"}));
  EXPECT_EQ(ended.code, 130) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("\ntiny.yaml, tuned"));
  EXPECT_THAT(read("fast.yaml"), HasSubstr("base: tiny.yaml"));
}

TEST_F(TuneVerb, RefusesWhatItCannotDo) {
  expect_refusal(tune({"--budget", "0.05s"}), 2, "0.05 s ");
  expect_refusal(tune({"--budget", "0s"}), 2, "--budget");
  expect_refusal({"tune", "--config", "tiny.yaml", "--out", "tiny.yaml"}, 2,
                 "tiny.yaml is the config itself");
}
