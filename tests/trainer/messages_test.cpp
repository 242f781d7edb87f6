// Messages of the program about itself and about unknown names.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "core/base/words.h"
#include "plan/toggle.h"
#include "tests/place.h"
#include "tests/refusal.h"
#include "tests/trainer/terminal.h"

using namespace bellows;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// "amp=mse" must not be answered with  amp: {dtype: ...},  which a toggle sets.
TEST(Messages, AWordInPlaceOfASectionIsAdvisedOnlyWhatIsTaken) {
  std::set<std::string> sections;
  for (const auto& [key, value] : dump(Plan{}))
    for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1))
      sections.insert(key.substr(0, dot));
  ASSERT_GT(sections.size(), 10u);
  int advised = 0;
  for (const std::string& section : sections) {
    const std::string text = refusal([&] { make_config({{{section, {"mse", "here"}}}}); });
    const std::string mark = cat("is not a map; write  ", section, ": {");
    const size_t at = text.find(mark);
    if (at == std::string::npos) continue;
    ++advised;
    const std::string option =
        text.substr(at + mark.size(), text.find(": ...}") - at - mark.size());
    EXPECT_FALSE(option_owners().contains(section + "." + option)) << text;
  }
  EXPECT_GE(advised, 5);
  EXPECT_THAT(refusal([] {
                make_config({{{"loss", {"hinge", "here"}}}});
              }),
              AllOf(HasSubstr("here: loss.name: "), HasSubstr("cross_entropy")));
}

TEST_F(Program, ExplainsNamesInAnyCaseAndThoseOfOtherTools) {
  EXPECT_THAT(run({"explain", "LeNet"}).out, StartsWith("models: lenet: "));
  EXPECT_THAT(run({"explain", "AdamW"}).out, StartsWith("optimizers: adamw: "));
  EXPECT_THAT(run({"explain", "Num-Workers"}).out, StartsWith("toggle num_workers"));
  EXPECT_THAT(run({"explain", "Train.Epochs"}).out, StartsWith("option train.epochs"));
  // The defaults are those of a run without a config.
  EXPECT_THAT(run({"explain", "Loss"}).out, HasSubstr("option loss.fused = true "));
  EXPECT_THAT(run({"explain", "data.num_workers"}).out, HasSubstr("data.num_workers = 1 "));
  for (const char* name : {"early_stopping", "EarlyStopping", "patience"})
    EXPECT_THAT(run({"explain", name}).out, HasSubstr("option train.patience = 0 ")) << name;
  EXPECT_THAT(run({"explain", "save_best"}).out, HasSubstr("option ckpt.best = none "));
  EXPECT_THAT(run({"explain", "learning_rate"}).out, HasSubstr("option optimizer.lr = "));
}

TEST_F(Program, ExplainMarksWhatOnlyAGpuCouldMeasureAndNoReportDoesAsExperimental) {
  int marked = 0;
  const std::string results = read(source_dir() + "/docs/results.md");
  for (const Toggle& toggle : toggles()) {
    const bool measured = results.find("| `" + toggle.name + "=") != results.npos;
    const bool experimental = std::ranges::count(toggle.needs, "cuda") && !measured;
    const std::string card = run({"explain", toggle.name}).out;
    EXPECT_EQ(card.find("\n  status:    experimental: ") != card.npos, experimental) << card;
    marked += experimental;
  }
  EXPECT_GT(marked, 0);
  EXPECT_LT(marked, std::ssize(toggles()));
}

TEST_F(Program, PrintsItsVersionCommitAndLibraries) {
  EXPECT_THAT(succeed({"--version"}),
              AllOf(ContainsRegex("^bellows [0-9.]+, commit ([0-9a-f]{12}|unknown)\n"),
                    HasSubstr("\n  compiler "), HasSubstr("\n  zlib "), HasSubstr("\n  onednn "),
                    HasSubstr("\n  cuda ")));
  EXPECT_THAT(run({"--help"}).out, HasSubstr("trainer --version"));
}

TEST_F(Program, SaysWhichDefaultsItTrainsWithoutAConfig) {
  const std::string note =
      "config: none given, so the defaults: model layers, data digits, optimizer sgd, 2 epochs; ";
  EXPECT_THAT(run(tiny({})).out, HasSubstr(note));
  write("config.yaml", "name: named\n");
  EXPECT_THAT(run(tiny({"--dry-run"})).out, HasSubstr(note));
  EXPECT_THAT(run(tiny({"--dry-run", "--config", "config.yaml"})).out,
              Not(HasSubstr("config: none")));
}

TEST_F(Program, WithJsonLinesEveryLineOnStdoutIsJson) {
  int windows = 0, evaluations = 0, messages = 0;
  bool hash = false;
  for (const Json& row :
       json_lines(succeed(tiny({"log={format: json, every: 2}", "train.patience=9"})))) {
    windows += row.contains("iter");
    evaluations += row.value("split", "") == "test" && row.contains("accuracy");
    messages += row.contains("message");
    hash |= row.value("message", "").starts_with("params hash: ");
  }
  EXPECT_EQ(windows, 4);
  EXPECT_EQ(evaluations, 2);
  EXPECT_GT(messages, 5);
  EXPECT_TRUE(hash);
  for (const char* how : {"--resume", "--dry-run"})
    EXPECT_GT(json_lines(run(tiny({"log={format: json}", how})).out).size(), 3u) << how;
}

// The progress bar is overwritten; the line of each epoch stays.
TEST_F(Program, LeavesTheTrainingLossOfEachEpochOnATerminal) {
  const Terminal terminal;
  const auto running = start(tiny({"log={every: 1, tensorboard: false}"}), terminal.in_child());
  const Ended ended = terminal.end(*running);
  EXPECT_EQ(ended.code, 0) << ended.out;
  std::map<int64_t, double> losses;
  for (const Json& row : rows("runs/run", "train"))
    losses[row["epoch"]] += row["loss"].get<double>() / 4;
  ASSERT_EQ(losses.size(), 2u);
  for (const auto& [epoch, loss] : losses)
    EXPECT_THAT(ended.out, HasSubstr(fmt::format("train: epoch: {}, step: {}, loss: {:.4f}\r\n",
                                                 epoch, 4 * epoch, loss)));
}
