// `trainer compare`: finds each difference of two real runs, and says where there is none.
#include <csignal>
#include <nlohmann/json.hpp>
#include "tests/trainer/program.h"
#include "tests/trainer/terminal.h"

using namespace bellows;
namespace fs = std::filesystem;

class Compare : public Program {
 protected:
  // Returns the output, after a check that it fits 80 columns.
  std::string compared(const std::string& a, const std::string& b) {
    const std::string out = succeed({"compare", a, b});
    expect_80_columns(out);
    return out;
  }
};

TEST_F(Compare, CountsWindowsThatEndAtTheSameSteps) {
  for (const int size : {64, 80})
    succeed(tiny({cat("data={name: digits, train_size: ", size,
                      ", test_size: 20, batch_size: 16, shuffle: false, transforms: "
                      "[{name: normalize, mean: [0.1], std: [0.2]}]}"),
                  "schedule={name: constant, warmup_epochs: 0}"}));
  EXPECT_THAT(compared("runs/run", "runs/run-2"),
              HasSubstr("equal to the last bit in 2 log windows; later ones end elsewhere\n"));
}

TEST_F(Compare, PrintsEachDifferenceOfTheEnvironmentBeforeAnyRatioAndWarnsOfWhatIsMissing) {
  for (int i = 0; i < 2; ++i) succeed(tiny({}));
  std::string text = compared("runs/run", "runs/run-2");
  for (const char* group :
       {"machine", "versions", "libraries", "data", "plan", "toggles", "toggles that were on"})
    EXPECT_THAT(text, HasSubstr(cat("\n", group, ": no differences in ")));
  EXPECT_THAT(text, AllOf(HasSubstr("The runs differ in nothing that they record"),
                          HasSubstr("train loss: equal to the last bit in 4 log windows\n"),
                          Not(HasSubstr("warning")), Not(HasSubstr("\033"))));
  const auto shown_with = [&](const char* variable, const char* value) {
    const Terminal terminal;
    const auto program = start({"compare", "runs/run", "runs/run-2"}, [&] {
      terminal.in_child()();
      setenv(variable, value, 1);
    });
    return terminal.end(*program).out;
  };
  EXPECT_THAT(shown_with("TERM", "xterm"), HasSubstr("plan: \033[32mno differences\033[0m in "));
  for (const auto& [variable, value] : {std::pair("TERM", "dumb"), {"NO_COLOR", "1"}})
    EXPECT_THAT(shown_with(variable, value),
                AllOf(HasSubstr("plan: no differences in "), Not(HasSubstr("\033"))));

  Json env = Json::parse(read("runs/run-2/env.json"));
  env["versions"]["onednn"] = "0.0.1";
  env["flags"] = std::string(200, 'w');
  env["cores"] = 4096;
  env["unheard_of"] = {{"x", 1}};
  env["allocator"] = "libjemalloc.so.2";
  env["variables"]["OMP_PLACES"] = "cores";
  env["libraries"].push_back("/lib/libplanted.so.1");
  env["pid"] = 1;
  write("runs/run-2/env.json", env.dump(2));
  text = compared("runs/run", "runs/run-2");
  const size_t results = text.find("\nresults ");
  ASSERT_NE(results, text.npos);
  for (const char* found :
       {"machine: 2 differences", "  cores ", " 4096\n", "  unheard_of.x  absent ",
        "versions: 3 differences", "onednn\n", "B: 0.0.1\n", "  allocator\n",
        "B: libjemalloc.so.2\n", "variables: 1 difference", "OMP_PLACES  absent  cores\n",
        "libraries: 1 difference", "/lib/libplanted.so.1  absent  loaded\n",
        "warning: the environments differ"})
    EXPECT_LT(text.find(found), results) << found << "\n" << text;
  EXPECT_GE(std::ranges::count(text, 'w'), 200);  // wrapped, not cut

  fs::remove(folder_ / "runs/run-2/env.json");
  fs::remove(folder_ / "runs/run-2/metrics.jsonl");
  EXPECT_THAT(compared("runs/run", "runs/run-2"),
              AllOf(HasSubstr("warning: B has no env.json"), Not(HasSubstr("absent")),
                    HasSubstr("train loss: a run has no log window")));
  expect_refusal({"compare", "runs/run", "runs"}, 2, "runs: not a run folder");
  write("runs/run/plan.yaml", "name: [");
  expect_refusal({"compare", "runs/run", "runs/run"}, 3, "plan.yaml");
}

TEST_F(Compare, NamesTheOptionsThatDifferAndTheTogglesThatRan) {
  succeed(tiny({"optimizer.lr=0.01"}));
  succeed(tiny({"optimizer.lr=1e38", "train.on_nonfinite=continue"}));
  EXPECT_THAT(compared("runs/run-2", "runs/run-2"), HasSubstr("equal to the last bit in 4 log"))
      << "losses that are no numbers";
  succeed(tiny({"optimizer.lr=0.02"}));
  EXPECT_THAT(
      compared("runs/run", "runs/run-3"),
      AllOf(HasSubstr("plan: 1 difference in "), HasSubstr("\n  optimizer.lr  0.01  0.02\n"),
            HasSubstr("train loss: first differs in the log window that ends at step 2\n"),
            Not(HasSubstr("warning"))));
  succeed(tiny({"optimizer.lr=0.01", "toggles={fused_loss: off}",
                "data={name: digits, train_size: 64, test_size: 20, batch_size: 32}"}));
  EXPECT_THAT(
      compared("runs/run", "runs/run-4"),
      AllOf(HasSubstr("  data.batch_size  16  32\n"), HasSubstr("  toggles.fused_loss  on  off\n"),
            HasSubstr("  fused_loss  ran  off\n"),
            HasSubstr("warning: more than one option differs"), HasSubstr("  updates "),
            HasSubstr(" 0.500\n")));
  run_until("iter: ", SIGKILL, tiny({"train.epochs=1000000"}));
  EXPECT_THAT(compared("runs/run", "runs/run-5"),
              HasSubstr("toggles that were on: unknown, a run has not ended\n"));
}
