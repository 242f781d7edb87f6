// docs/seeds.md: a row for each statement of the sources. What it names exists.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>
#include "core/base/words.h"
#include "core/config/config.h"
#include "ops/base/op.h"
#include "plan/plan.h"
#include "plan/toggle.h"
#include "tests/house/tree.h"
#include "trainer/verbs/tables.h"
#include "trainer/verbs/topics.h"
#include "trainer/verbs/verbs.h"

using namespace bellows;

namespace {

struct Seed {
  std::string number;
  Names cells;  // statement, shown by, source, ours, holds
};

std::vector<Seed> seeds() {
  std::vector<Seed> all;
  for (const std::string& line : lines_of("docs/seeds.md")) {
    if (!line.starts_with("| S")) continue;
    Names cells;
    for (size_t begin = 2, end = 0; end + 2 < line.size(); begin = end + 3) {
      end = std::min(line.find(" | ", begin), line.size() - 2);
      cells.push_back(line.substr(begin, end - begin));
    }
    all.push_back({cells[0], {cells.begin() + 1, cells.end()}});
  }
  return all;
}

// Names of toggles, options and their groups, topics, counters, ops, and the entries of all lists.
const std::set<std::string>& known_names() {
  static const std::set<std::string> known = [] {
    std::set<std::string> all;
    for (const Toggle& toggle : toggles()) all.insert(toggle.name);
    for (const auto& [key, value] : dump(Plan{}))
      for (size_t dot = 0; dot != key.npos;) {
        dot = key.find('.', dot + 1);
        all.insert(key.substr(0, dot));
      }
    for (const Topic& topic : topics()) {
      all.insert(topic.name);
      all.insert(topic.others.begin(), topic.others.end());
    }
    for (const Table& table : tables())
      for (const TableRow& row : table.rows()) all.insert(row[0]);
    for (const OpSpec& op : op_specs()) all.insert(op.name);
    return all;
  }();
  return known;
}

// Returns true if there is such a list, with an entry of that name unless that is "".
bool has_row(const std::string& list, const std::string& name = "") {
  for (const Table& table : tables())
    if (table.name == list)
      for (const TableRow& row : table.rows())
        if (name.empty() || row[0] == name) return true;
  return false;
}

std::string help_of(const Arguments& verb) {
  Arguments args = verb;
  args.emplace_back("--help");
  testing::internal::CaptureStdout();
  run_program(args);
  return testing::internal::GetCapturedStdout();
}

// Returns true if `code` is a verb with arguments that it takes, a finding, a file or a name.
bool exists(const std::string& code) {
  std::istringstream stream(code);
  Names words;
  for (std::string word; stream >> word;) words.push_back(word);
  const std::string& first = words.at(0);
  if (!verbs().contains(first)) {
    const std::string finding = "{\"" + code + "\", \"";
    return known_names().contains(code) ||
           std::filesystem::is_regular_file(source_dir() + "/" + code) ||
           text_of("labs/diagnose/rules.cpp").find(finding) != std::string::npos;
  }
  Arguments verb = {first};
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool known = word.starts_with("--") ? help_of(verb).find(word + " ") != std::string::npos
                       : first == "lesson"    ? has_row("lessons", word)
                       : first == "bench"     ? has_row("benches", word)
                       : first == "explain"   ? known_names().contains(word)
                       : first == "list"      ? has_row(word)
                                              : false;
    if (!known) return false;
    if (first == "bench") verb = {first, words[1]};
  }
  return true;
}

Names missing_in(const std::string& cell) {
  Names missing;
  for (size_t at = 0; (at = cell.find('`', at)) != cell.npos;) {
    const size_t end = cell.find('`', ++at);
    const std::string code = cell.substr(at, end - at);
    if (!exists(code)) missing.push_back(code);
    at = end + 1;
  }
  return missing;
}

}  // namespace

TEST(Seeds, HaveARowForEachStatement) {
  const std::map<std::string, int> last = {
      {"S0", 23}, {"S1", 83}, {"S2", 94}, {"S3", 116}, {"S4", 142}};
  int number = 0;
  std::string source = "S0";
  for (const Seed& seed : seeds()) {
    if (number == last.at(source)) source[1]++;
    EXPECT_EQ(seed.number, cat(source, ":", ++number));
    EXPECT_EQ(seed.cells.size(), 5u) << seed.number;
    for (const std::string& cell : seed.cells) EXPECT_FALSE(cell.empty()) << seed.number;
  }
  EXPECT_EQ(number, 142);
}

// Each row names what shows the statement, and says what is missing where it does not hold.
TEST(Seeds, AreShownByWhatExists) {
  if (!has_labs()) GTEST_SKIP() << "no labs";
  for (const Seed& seed : seeds()) {
    EXPECT_THAT(seed.cells[1], testing::HasSubstr("`")) << seed.number;
    for (const size_t column : {1, 3})
      EXPECT_THAT(missing_in(seed.cells[column]), testing::IsEmpty()) << seed.number;
    EXPECT_TRUE(seed.cells[4] == "yes" || seed.cells[4].starts_with("part: ")) << seed.number;
  }
}

TEST(Seeds, MarkWhatIsWrongInThem) {
  std::set<std::string> marked;
  for (const Seed& seed : seeds())
    if (seed.cells[0].find("(Correction: ") != std::string::npos) marked.insert(seed.number);
  EXPECT_EQ(marked,
            (std::set<std::string>{"S0:3", "S0:18", "S1:56", "S1:64", "S1:66", "S1:67", "S2:86",
                                   "S3:107", "S3:109", "S3:110", "S4:119", "S4:139"}));
}

TEST(Seeds, FindNamesThatDoNotExist) {
  if (!has_labs()) GTEST_SKIP() << "no labs";
  EXPECT_THAT(missing_in("`num_workers`, `lesson vram`, `bench matmul --align`, `kernel_hot`, "
                         "`doctor --shapes`, `log.format`, `explain blas`, `list toggles`"),
              testing::IsEmpty());
  const Names wrong = {"num_worker",      "lesson vrams", "bench matmul --aline", "kernel_cold",
                       "doctor --shape5", "log.formats",  "explain blass",        "list togles",
                       "doctors",         "ab lesson",    "core/base/none.h"};
  for (const std::string& name : wrong)
    EXPECT_THAT(missing_in("`" + name + "`"), testing::ElementsAre(name));
}
