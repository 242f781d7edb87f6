// Checks tables, line counts and quoted code in the documents. To write tables and counts again:
//   BELLOWS_WRITE_DOCS=1 build/tests/house_test --gtest_filter='Docs.*'
#include <gtest/gtest.h>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <sstream>
#include "ops/base/op.h"
#include "plan/toggle.h"
#include "tests/house/tree.h"
#include "tests/place.h"
#include "trainer/verbs/tables.h"

using namespace bellows;
namespace fs = std::filesystem;

// A bar would end the cell.
static std::string cell(std::string text) {
  for (size_t at = text.find('|'); at != text.npos; at = text.find('|', at + 2))
    text.insert(at, "\\");
  return text;
}

static std::string toggle_table() {
  std::map<std::string, std::string> rows;
  for (const Toggle& toggle : toggles())
    rows[toggle.name] =
        cat("| [`", toggle.name, "`](../", toggle.file, ") | ", toggle.default_value, " | ",
            name_of(toggle.same), " | ", cell(toggle.idea), " |\n");
  std::string table = "| toggle | default | the loss stays | what it does |\n|---|---|---|---|\n";
  for (const auto& [name, row] : rows) table += row;
  return table;
}

// All lists of `trainer list` except toggles and ops, which have tables of their own, and those of
// docs/topics.md.
static std::string entry_table() {
  const std::map<std::string, std::string> starts = {{"verb", "trainer "},
                                                     {"benchmark", "trainer bench "}};
  std::string text = "| | name | |\n|---|---|---|\n";
  for (const Table& table : tables()) {
    const std::string one = table.one;
    if (table.has_cards) continue;
    const std::string start = starts.contains(one) ? starts.at(one) : "";
    for (const TableRow& row : table.rows())
      text += cat("| ", one, " | `", start, row[0], "` | ", cell(row[1]), " |\n");
  }
  return text;
}

static std::string op_table() {
  std::map<std::string, std::string> rows;
  for (const OpSpec& spec : op_specs()) rows.emplace(spec.name, spec.math);
  std::string table = "| op | |\n|---|---|\n";
  for (const auto& [name, math] : rows) table += cat("| `", name, "` | ", cell(math), " |\n");
  return table;
}

static std::filesystem::path in_sources(const std::string& file) {
  return std::filesystem::path(source_dir()) / file;
}

static bool writes() { return std::getenv("BELLOWS_WRITE_DOCS"); }

// Calls fn(NAME, block) for the text between each line `<!-- <mark>: NAME -->` and the next
// `<!-- end -->`. fn may change the block.
template <class Fn>
static void for_each_block(std::string& text, const std::string& mark, const Fn& fn) {
  const std::string begin = "<!-- " + mark + ": ";
  for (size_t at = text.find(begin); at != text.npos; at = text.find(begin, at + 1)) {
    const size_t name = at + begin.size(), name_end = text.find(" -->", name);
    const size_t inside = text.find('\n', name_end) + 1, end = text.find("<!-- end -->", inside);
    ASSERT_NE(end, text.npos) << text.substr(at, 60);
    std::string block = text.substr(inside, end - inside);
    fn(text.substr(name, name_end - name), block);
    text.replace(inside, end - inside, block);
  }
}

// Adding a thing needs no edit of a document, so a missing row is no failure here; .ci/run, which
// writes the tables again, finds it.
TEST(Docs, EveryRowOfTheReferenceIsTrue) {
  if (!has_labs()) GTEST_SKIP() << "no labs";
  const std::map<std::string, std::function<std::string()>> tables = {
      {"toggles", toggle_table}, {"entries", entry_table}, {"ops", op_table}};
  std::string text = text_of("docs/reference.md");
  size_t rows = 0;
  for_each_block(text, "table", [&](const std::string& name, std::string& block) {
    const std::string table = tables.at(name)();
    std::istringstream lines(block);
    for (std::string line; std::getline(lines, line); ++rows)
      EXPECT_TRUE(writes() || ("\n" + table).find("\n" + line + "\n") != table.npos) << line;
    if (writes()) block = table;
  });
  EXPECT_GT(rows, 100u);
  if (writes()) std::ofstream(in_sources("docs/reference.md")) << text;
}

// docs/reading.md: "| [`core/base/dtype.h`](../core/base/dtype.h) | 88 | element types |".
TEST(Docs, TheTeachingPathIsShortAndItsLineCountsAreTrue) {
  std::string text;
  int64_t total = 0, files = 0;
  for (std::string line : lines_of("docs/reading.md")) {
    const size_t end = line.find("`](../");
    if (line.starts_with("| [`") && end != line.npos) {
      const std::string file = line.substr(4, end - 4);
      const size_t count = line.find(") | ") + 4, count_end = line.find(' ', count);
      const auto actual = static_cast<int64_t>(lines_of(file).size());
      const int64_t stated = std::stoll(line.substr(count, count_end - count));
      EXPECT_GT(actual, 0) << file << " does not exist";
      EXPECT_LE(std::abs(actual - stated), 10 + actual / 10) << file << " has " << actual;
      line.replace(count, count_end - count, std::to_string(actual));
      total += actual, ++files;
    }
    text += line + "\n";
  }
  EXPECT_GT(files, 40);
  EXPECT_LE(total, 8'000);
  if (writes()) std::ofstream(in_sources("docs/reading.md")) << text;
}

// docs/README.md: "| data copy | Is data created where it is used? |".
TEST(Docs, TheCourseHasAQuestionForEachKeyPoint) {
  std::set<std::string> key_points, asked;
  for (const Toggle& toggle : toggles()) key_points.insert(toggle.key_point);
  for (const std::string& line : lines_of("docs/README.md"))
    if (line.starts_with("| ") && line.ends_with("? |"))
      asked.insert(line.substr(2, line.find(" |") - 2));
  EXPECT_EQ(asked, key_points);
}

// "[text](path#heading)", relative to the page. Addresses of the web have a colon.
TEST(Docs, LinksLeadToFiles) {
  if (!has_labs()) GTEST_SKIP() << "no labs";
  const std::regex link(R"(\]\(([^)#:\s]+)(#[^)]*)?\))");
  std::vector<fs::path> pages = files_in({"docs", "peers", "tests"}, {".md"});
  pages.insert(pages.end(), {"README.md", "CONTRIBUTING.md"});
  int links = 0;
  for (const fs::path& page : pages) {
    const std::string text = text_of(page);
    for (std::sregex_iterator at(text.begin(), text.end(), link), end; at != end; ++at, ++links)
      EXPECT_TRUE(fs::exists(in_sources((page.parent_path() / at->str(1)).string())))
          << page << " links to " << at->str(1);
  }
  EXPECT_GT(links, 100);
}

// In README.md, `<!-- file: PATH -->` stands before a code block with lines of that file.
TEST(Docs, QuotedCodeIsTheCode) {
  std::string readme = text_of("README.md");
  int quotes = 0;
  for_each_block(readme, "file", [&](const std::string& file, std::string& block) {
    std::istringstream lines(block);
    std::string quoted;
    for (std::string line; std::getline(lines, line);)
      if (!line.starts_with("```")) quoted += line + "\n";
    EXPECT_NE(text_of(file).find(quoted), std::string::npos) << file << " does not say\n" << quoted;
    ++quotes;
  });
  EXPECT_GE(quotes, 2);
}
