#include "tests/commands/printed.h"
#include <gtest/gtest.h>
#include <filesystem>
#include <fstream>
#include <set>
#include "labs/bench/bench.h"
#include "plan/toggle.h"
#include "tests/place.h"
#include "trainer/verbs/tables.h"

namespace bellows {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

static bool starts_a_command(const std::string& text) {
  for (const char* start : {"trainer ", "build/trainer ", "taskset ", "./run ", "build/peers/"})
    if (text.starts_with(start)) return true;
  for (const char* script : {"tools/", "peers/"})  // a file in it, not the folder
    if (text.starts_with(script)) return text.substr(0, text.find(' ')).find('.') != text.npos;
  return false;
}

// ---- output of the program

std::string output_of(const Arguments& args) {
  testing::internal::CaptureStdout();
  const int code = run_program(args);
  std::string text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, 0) << testing::PrintToString(args);
  return text;
}

// Columns are separated by two spaces or more; a command fills a column.
static Strings commands_in_output(const std::string& text) {
  Strings found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    for (size_t at = 0; at < line.size();) {
      const size_t begin = std::min(line.find_first_not_of(' ', at), line.size());
      at = std::min(line.find("  ", begin), line.size());
      const std::string cell = line.substr(begin, at - begin);
      if (starts_a_command(cell)) found.push_back(cell);
    }
  return found;
}

static std::set<std::string> names_to_explain() {
  std::set<std::string> names;
  for (const Table& table : tables()) {
    const std::string_view kind = table.name;
    if (kind == "verbs" || kind == "benches") continue;  // `help` shows those
    for (const TableRow& row : table.rows()) names.insert(row[0].substr(0, row[0].find(',')));
  }
  return names;
}

static void add_output(std::vector<Printed>& all, const std::string& source,
                       const Arguments& args) {
  for (const std::string& text : commands_in_output(output_of(args))) all.push_back({source, text});
}

// ---- documents

// Code lines, indented or fenced, and code between backticks. A comment may follow a command.
static Strings commands_in_document(const fs::path& path) {
  Strings found;
  std::ifstream file(path);
  bool fenced = false;
  const auto add = [&](std::string text) {
    text = text.substr(0, text.find(" # "));
    text.erase(text.find_last_not_of(' ') + 1);
    if (starts_a_command(text)) found.push_back(text);
  };
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) fenced = !fenced;
    if (fenced || line.starts_with("    ")) {
      const size_t begin = line.find_first_not_of(' ');
      if (begin != line.npos) add(line.substr(begin));
      continue;
    }
    for (size_t begin = 0; (begin = line.find('`', begin)) != line.npos;) {
      const size_t end = line.find('`', ++begin);
      if (end == line.npos) break;
      add(line.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return found;
}

static Strings documents() {
  Strings all = {"README.md"};
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(source_dir()) / "docs"))
    if (entry.path().extension() == ".md")
      all.push_back(fs::relative(entry.path(), source_dir()).string());
  return all;
}

std::vector<Printed> printed_commands() {
  std::vector<Printed> all;
  add_output(all, "help", {"--help"});
  for (const auto& [name, verb] : verbs()) add_output(all, "help", {name, "--help"});
  for (const auto& [name, bench] : benches()) add_output(all, "help", {"bench", name, "--help"});
  add_output(all, "list", {"list"});
  for (const std::string& name : names_to_explain()) add_output(all, "explain", {"explain", name});
  for (const std::string& name : documents())
    for (const std::string& text : commands_in_document(fs::path(source_dir()) / name))
      all.push_back({name, text});
  return all;
}

std::map<std::string, size_t> fewest_commands() {
  return {{"help", verbs().size() + benches().size()},
          {"list", verbs().size() + benches().size()},
          {"explain", toggles().size()},
          {"README.md", 15},
          {"docs/reference.md", 10},
          {"docs/README.md", 5}};
}

}  // namespace bellows
