// Messages of the program about itself and about unknown names.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <unistd.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include "core/base/json.h"
#include "core/base/words.h"
#include "plan/toggle.h"
#include "tests/place.h"
#include "tests/refusal.h"
#include "tests/trainer/program.h"

using namespace bellows;
namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Messages, CountNounsInTheRightNumber) {
  EXPECT_EQ(count_of(0, "epoch"), "0 epochs");
  EXPECT_EQ(count_of(1, "epoch"), "1 epoch");
  EXPECT_EQ(count_of(2, "epoch"), "2 epochs");
}

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
    EXPECT_THAT(refusal([&] {
                  make_config({{{section + "." + option, {"?", "here"}}}});
                }),
                Not(HasSubstr("unknown key")))
        << text;
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
  EXPECT_THAT(run({"explain", "Loss"}).out, HasSubstr("option loss.fused = true "));
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

// Regression: `explain loss` showed fused = false, while a config without it fuses.
TEST_F(Program, ExplainShowsTheDefaultsThatARunHas) {
  EXPECT_THAT(run({"explain", "loss"}).out, HasSubstr("option loss.fused = true "));
  EXPECT_THAT(run({"explain", "data.num_workers"}).out, HasSubstr("data.num_workers = 1 "));
}

TEST_F(Program, PrintsItsVersionCommitAndLibraries) {
  const Ended ended = run({"--version"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.out, AllOf(ContainsRegex("^bellows [0-9.]+, commit ([0-9a-f]{12}|unknown)\n"),
                               HasSubstr("\n  compiler "), HasSubstr("\n  zlib "),
                               HasSubstr("\n  onednn "), HasSubstr("\n  cuda ")));
  EXPECT_THAT(run({"--help"}).out, HasSubstr("trainer --version"));
}

TEST_F(Program, SaysWhichDefaultsItTrainsWithoutAConfig) {
  const std::string note =
      "config: none given, so the defaults: model layers, data digits, optimizer sgd, 2 epochs; ";
  EXPECT_THAT(run(tiny({})).out, HasSubstr(note));
  write("config.yaml", "name: named\n");
  Program::Args args = tiny({"--dry-run"});
  EXPECT_THAT(run(args).out, HasSubstr(note));
  args.insert(args.end(), {"--config", "config.yaml"});
  EXPECT_THAT(run(args).out, Not(HasSubstr("config: none")));
}

TEST_F(Program, OneEpochIsNoEpochs) {
  EXPECT_THAT(run(tiny({"train.epochs=1"})).out, HasSubstr("done: 4 steps, 1 epoch, "));
}

TEST_F(Program, WithJsonLinesEveryLineOnStdoutIsJson) {
  const auto rows = [](const std::string& out) {
    std::vector<Json> rows;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) rows.push_back(Json::parse(line));
    return rows;
  };
  const Ended ended = run(tiny({"log={format: json, every: 2}", "train.patience=9"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  int windows = 0, evaluations = 0, messages = 0;
  bool hash = false;
  for (const Json& row : rows(ended.out)) {
    windows += row.contains("iter");
    evaluations += row.value("split", "") == "test" && row.contains("accuracy");
    messages += row.contains("message");
    hash |= row.value("message", "").starts_with("params hash: ");
  }
  EXPECT_EQ(windows, 4);
  EXPECT_EQ(evaluations, 2);
  EXPECT_GT(messages, 5);
  EXPECT_TRUE(hash);
  EXPECT_GT(rows(run(tiny({"log={format: json}", "--resume"})).out).size(), 3u);
  EXPECT_GT(rows(run(tiny({"log={format: json}", "--dry-run"})).out).size(), 3u);
}

// Waits up to ten seconds for some bytes.
static ssize_t read_some(int file, char* to, size_t most) {
  pollfd ready = {file, POLLIN, 0};
  return poll(&ready, 1, 10000) == 1 ? read(file, to, most) : 0;
}

// The progress bar is overwritten; the line of each epoch stays.
TEST_F(Program, LeavesTheTrainingLossOfEachEpochOnATerminal) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(grantpt(terminal) | unlockpt(terminal), 0);
  const std::string name = ptsname(terminal);
  const int ours = open(name.c_str(), O_RDWR | O_NOCTTY);  // so that it outlives the program
  const auto running = start(tiny({"log={every: 1, tensorboard: false}"}), [&] {
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    dup2(open(name.c_str(), O_RDWR | O_NOCTTY), 1);
  });
  std::string shown;
  for (char piece[4096]; shown.find("params hash") == std::string::npos;) {
    const ssize_t n = read_some(terminal, piece, sizeof piece);
    if (n <= 0) break;
    shown.append(piece, static_cast<size_t>(n));
  }
  EXPECT_EQ(running->end().code, 0) << shown;
  close(ours);
  close(terminal);
  std::istringstream rows(Program::read("runs/run/metrics.jsonl"));
  std::map<int64_t, double> losses;
  for (std::string line; std::getline(rows, line);)
    if (const Json row = Json::parse(line); row["split"] == "train")
      losses[row["epoch"]] += row["loss"].get<double>() / 4;
  ASSERT_EQ(losses.size(), 2u);
  for (const auto& [epoch, loss] : losses)
    EXPECT_THAT(shown, HasSubstr(fmt::format("train: epoch: {}, step: {}, loss: {:.4f}\r\n", epoch,
                                             4 * epoch, loss)));
}
