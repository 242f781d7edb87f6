// Collects every command that the product prints and decides how a test treats it. Commands are
// found in the registries and in the text of help, list, explain and the documents, so a new verb,
// toggle or page is tested without a change here.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace bellows {

struct Printed {
  std::string source;  // "help", "list", "explain", "README.md", "docs/house.md", ...
  std::string text;    // the command as it is printed
};
std::vector<Printed> printed_commands();

// Returns the minimum number of commands per source: one for each verb, benchmark and toggle with
// an example, and fixed minimums for large documents. Fewer means that the source was misread.
std::map<std::string, size_t> fewest_commands();

// Returns the program's output. The test fails if the program ends with an error.
std::string output_of(const std::vector<std::string>& args);

enum class Treatment {
  run,      // as printed, at the smallest sizes
  script,   // parsed only (--help if Python): it builds, downloads, needs PyTorch
  machine,  // test or benchmark that needs a GPU: its sources must exist
};

struct Planned {
  Treatment treatment;
  std::string command;    // for a shell, or the file to check
  int code = 0;           // the documented exit code
  std::string says = "";  // text that its output must contain
};
// Throws Error (Exit::usage) for a placeholder without a value and for an unknown program.
Planned planned(const std::string& text);

}  // namespace bellows
