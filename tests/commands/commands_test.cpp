// Runs every command that help, list, explain, README and docs print, at the smallest sizes that it
// allows, and checks the documented exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <filesystem>
#include <iostream>
#include "core/base/check.h"
#include "core/base/words.h"
#include "tests/commands/printed.h"
#include "tests/commands/workspace.h"
#include "tests/place.h"

using namespace bellows;
using testing::HasSubstr;
using testing::Not;

// Each command once, with all its sources: pages repeat each other.
static const std::map<std::string, std::string>& commands() {
  static const std::map<std::string, std::string> all = [] {
    std::map<std::string, std::string> found;
    for (const Printed& printed : printed_commands()) {
      std::string& sources = found[printed.text];
      if (sources.find(printed.source) == sources.npos)
        sources += (sources.empty() ? "" : ", ") + printed.source;
    }
    return found;
  }();
  return all;
}

// ---- search and treatment

TEST(PrintedCommands, AreFoundInEverySource) {
  std::map<std::string, size_t> found;
  for (const Printed& printed : printed_commands()) ++found[printed.source];
  for (const auto& [source, fewest] : fewest_commands()) EXPECT_GE(found[source], fewest) << source;
  for (const auto& [source, count] : found) std::cout << source << ": " << count << " commands\n";
}

TEST(PrintedCommands, AreRunWhereverThatIsPossible) {
  std::set<std::string> run;
  for (const auto& [text, sources] : commands())
    if (const Planned plan = planned(text); plan.treatment == Treatment::run)
      run.insert(plan.command);
  std::cout << run.size() << " of " << commands().size() << " commands are run\n";
  EXPECT_GT(run.size(), 60u);
}

// Negative control: a wrong command on a page would be found.
TEST(PrintedCommands, ThatFailAreFound) {
  const std::string wrong = "trainer ab --config configs/lenet.yaml --toggle num_worker --value 2";
  EXPECT_EQ(Workspace(wrong).run(planned(wrong).command).code, 2);
  EXPECT_EQ(planned(wrong).code, 0);
}

// ---- every command

class PrintedCommand : public testing::TestWithParam<std::string> {};

// Scripts are parsed, not run: they build, download, or need PyTorch.
static void expect_script(const std::string& name) {
  const std::string path = source_dir() + "/" + name;
  ASSERT_TRUE(std::filesystem::is_regular_file(path)) << path;
  const bool python = name.ends_with(".py");
  const std::string command =
      python ? "python3 -B " + quoted(path) + " --help" : "bash -n " + quoted(path);
  EXPECT_EQ(access(path.c_str(), X_OK), 0) << path << " cannot be executed";
  const Said said = Workspace("").run(command);
  EXPECT_EQ(said.code, 0) << command << "\n" << said.text;
}

TEST_P(PrintedCommand, EndsAsItsPageSays) {
  const std::string& text = GetParam();
  const Planned plan = planned(text);
  SCOPED_TRACE(
      cat("'", text, "' is printed by ", commands().at(text), ", run as '", plan.command, "'"));
  if (plan.treatment == Treatment::script) return expect_script(plan.command);
  if (plan.treatment == Treatment::machine) {
    EXPECT_TRUE(std::filesystem::is_directory(source_dir() + "/" + plan.command));
    return;
  }
  const Workspace workspace(text);
  const Said said = workspace.run(plan.command);
  EXPECT_EQ(said.code, plan.code) << said.text;
  EXPECT_THAT(said.text, HasSubstr(plan.says));
  EXPECT_THAT(said.text, Not(HasSubstr("**FAILED** declared")));
  // The command that `explain` prints to measure a toggle must show it running.
  if (commands().at(text).starts_with("explain")) {
    EXPECT_THAT(said.text, Not(HasSubstr("did not run")));
  }
}

INSTANTIATE_TEST_SUITE_P(All, PrintedCommand, testing::ValuesIn([] {
                           std::vector<std::string> texts;
                           for (const auto& [text, sources] : commands()) texts.push_back(text);
                           return texts;
                         }()));
