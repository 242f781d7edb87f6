// Exceptions of std::filesystem end a verb with the exit code of an internal error. Product code
// calls the functions that take an error_code (for iterators, increment()) or those of
// core/base/file.h.
#include <gtest/gtest.h>
#include "tests/house/tree.h"

using namespace bellows;
using NameSet = std::set<std::string>;

static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Joins the lines, without comments.
static std::string code_in(const std::vector<std::string>& lines) {
  std::string code;
  for (const std::string& line : lines) code += line.substr(0, line.find("//")) + " ";
  return code;
}

static std::string word_at(const std::string& code, size_t& at) {
  while (at < code.size() && code[at] == ' ') ++at;
  const size_t begin = at;
  while (at < code.size() && is_word(code[at])) ++at;
  return code.substr(begin, at - begin);
}

// Names of the error codes in the file.
static NameSet error_codes(const std::string& code) {
  const std::string type = "error_code ";
  NameSet names;
  for (size_t at = 0; (at = code.find(type, at)) != std::string::npos;) {
    at += type.size();
    names.insert(word_at(code, at));
  }
  return names;
}

// Returns the last argument of the call whose parenthesis is at `at`, up to its own opening
// parenthesis.
static std::string last_argument(const std::string& code, size_t at) {
  size_t begin = at + 1;
  for (int depth = 0; at < code.size(); ++at) {
    depth += code[at] == '(' || code[at] == '{';
    depth -= code[at] == ')' || code[at] == '}';
    if (depth == 1 && code[at] == ',') begin = at + 1;
    if (depth == 0) break;
  }
  const size_t text = code.find_first_not_of(' ', begin);
  return code.substr(text, std::min(at, code.find('(', text)) - text);
}

// exists(status) does no system call; the call that made the status is checked by itself.
static bool cannot_throw(const std::string& argument, const NameSet& codes) {
  return codes.contains(argument) || argument == "fs::status" || argument == "fs::symlink_status";
}

static const NameSet kTypes = {"path", "directory_options", "file_type", "file_status"};

// Returns the functions of std::filesystem (`fs`) and the methods that are called and may throw.
static std::vector<std::string> throwing(const std::vector<std::string>& lines) {
  const std::string code = code_in(lines);
  const NameSet codes = error_codes(code);
  std::vector<std::string> found;
  for (const std::string space : {"filesystem::", "fs::"})
    for (size_t at = 0; (at = code.find(space, at)) != std::string::npos;) {
      const bool whole = at == 0 || !is_word(code[at - 1]);
      at += space.size();
      const std::string name = word_at(code, at);
      if (!whole || kTypes.contains(name)) continue;
      size_t call = at;
      const std::string variable = word_at(code, call);
      const bool iterates = name.ends_with("directory_iterator");
      const bool is_call = code[call] == '(' && variable.empty() != iterates;
      if (!is_call || !cannot_throw(last_argument(code, call), codes)) found.push_back(name);
    }
  for (const std::string method : {"is_directory()", "is_regular_file()", "is_symlink()",
                                   "file_size()", "exists()", "last_write_time()", "refresh()"})
    if (code.find(method) != std::string::npos) found.push_back(method);
  return found;
}

TEST(Filesystem, ThrowingCallsAreFoundWherePlanted) {
  for (const std::string code :
       {"if (fs::exists(path)) return;",
        "std::error_code error; fs::create_directories(path.parent_path());",
        "std::filesystem::remove(path, other);",
        "std::error_code e; for (const auto& entry : fs::directory_iterator(folder, e)) f();",
        "for (fs::directory_iterator at(folder), end; at != end; ++at) f();",
        "return listed<fs::directory_iterator>(folder);", "return entry.is_directory();",
        "} catch (const fs::filesystem_error& error) {"})
    EXPECT_EQ(throwing({code}).size(), 1u) << code;
  for (const std::string code :
       {"namespace fs = std::filesystem; fs::path p = std::filesystem::path(x) / y;",
        "std::error_code error; if (fs::exists(path / name(1, 2), error)) return;",
        "std::error_code none; for (fs::directory_iterator at(a, none), end; at.increment(none))",
        "std::error_code error; if (fs::exists(fs::symlink_status(path, error))) f();",
        "f();  // as fs::exists( would"})
    EXPECT_EQ(throwing({code}).size(), 0u) << code;
}

TEST(Filesystem, ProductCodeCallsNothingThatThrows) {
  for (const auto& file : files_in(product_folders(), {".h", ".cpp", ".cu", ".cuh"}))
    EXPECT_EQ(throwing(lines_of(file)), std::vector<std::string>()) << file;
}
