// The tables of README.md match the registries. To regenerate them:
//   BELLOWS_WRITE_README=1 build/tests/house_test --gtest_filter='Readme.*'
#include <gtest/gtest.h>
#include <cstdlib>
#include <functional>
#include "ops/base/op.h"
#include "plan/toggle.h"
#include "tests/house/tree.h"
#include "trainer/verbs/verbs.h"

using namespace bellows;

// Escapes bars, which would end the cell.
static std::string cell(std::string text) {
  for (size_t at = text.find('|'); at != text.npos; at = text.find('|', at + 2))
    text.insert(at, "\\");
  return text;
}

static std::string toggle_table() {
  std::map<std::string, std::string> rows;
  for (const Toggle& toggle : toggles())
    rows[toggle.name] =
        cat("| [`", toggle.name, "`](toggles/", toggle.name, ".cpp) | ", toggle.by_default, " | ",
            name_of(toggle.same), " | ", cell(toggle.idea), " |\n");
  std::string table = "| toggle | default | the loss stays | what it does |\n|---|---|---|---|\n";
  for (const auto& [name, row] : rows) table += row;
  return table;
}

template <class Signature> static std::string entry_rows(const std::string& kind) {
  std::string rows;
  for (const auto& [name, entry] : entries<Signature>())
    rows += cat("| ", kind, " | `", name, "` | ", cell(entry.help), " |\n");
  return rows;
}

static std::string entry_table() {
  std::string table = "| | name | |\n|---|---|---|\n";
  for (const auto& [name, verb] : verbs())
    table += cat("| verb | `trainer ", name, "` | ", cell(verb.help), " |\n");
  return table + entry_rows<MakeModel>("model") + entry_rows<MakeLayer>("layer") +
         entry_rows<MakeDataset>("data set") + entry_rows<MakeTransform>("transform") +
         entry_rows<UpdateRule()>("optimizer") + entry_rows<Curve(const Horizon&)>("schedule");
}

static std::string op_table() {
  std::map<std::string, std::string> rows;
  for (const OpSpec& spec : op_specs()) rows.emplace(spec.name, spec.math);
  std::string table = "| op | |\n|---|---|\n";
  for (const auto& [name, math] : rows) table += cat("| `", name, "` | ", cell(math), " |\n");
  return table;
}

// Fills in each `<!-- table: x -->` up to its `<!-- end -->`.
static std::string filled(std::string text) {
  const std::map<std::string, std::function<std::string()>> tables = {
      {"toggles", toggle_table}, {"entries", entry_table}, {"ops", op_table}};
  for (const auto& [name, table] : tables) {
    const std::string mark = "<!-- table: " + name + " -->\n";
    const size_t start = text.find(mark);
    if (start == std::string::npos) continue;
    const size_t inside = start + mark.size(), end = text.find("<!-- end -->", inside);
    text.replace(inside, end - inside, table());
  }
  return text;
}

TEST(Readme, HoldsTheTablesOfTheRegistries) {
  const std::filesystem::path readme = std::filesystem::path(BELLOWS_SOURCE_DIR) / "README.md";
  std::string text;
  for (const std::string& line : lines_of("README.md")) text += line + "\n";
  EXPECT_NE(text.find("<!-- table: toggles -->"), std::string::npos);
  if (std::getenv("BELLOWS_WRITE_README"))
    std::ofstream(readme) << filled(text);
  else
    EXPECT_TRUE(text == filled(text)) << "out of date; run this test with BELLOWS_WRITE_README=1";
}
