// Every command that the product prints, and what a test does with it. Commands are found in the
// registries and in the text of help, list, explain and the documents, so a new verb, toggle or
// page is tested without a change here.
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

// How few commands each source may have: one for each verb, benchmark, toggle with an example, and
// what the large documents hold. A source that has fewer is read wrongly.
std::map<std::string, size_t> fewest_commands();

enum class Treatment {
  run,     // as it is printed, at the smallest sizes
  script,  // its script is parsed, with --help if it is Python: it builds, downloads, needs PyTorch
  machine,  // a test or a benchmark for a machine with a GPU: its sources are there
};
const char* name_of(Treatment treatment);

struct Planned {
  Treatment treatment;
  std::string command;    // for a shell, or the file that is looked at
  int code = 0;           // the documented exit code
  std::string says = "";  // part of what it prints in that case
};
// Throws Error (exit 2) for a placeholder that it has no value for.
Planned planned(const std::string& text);

}  // namespace bellows
