// Counts, lists and words of commands as messages print them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bellows {

using Names = std::vector<std::string>;

// Returns "1 epoch", "2 epochs", "0 epochs", "3 processes".
inline std::string count_of(int64_t n, std::string_view noun) {
  const char* const plural = noun.ends_with('s') ? "es" : "s";
  return std::to_string(n) + " " + std::string(noun) + (n == 1 ? "" : plural);
}

// Returns "a, b", or `none` if there are no names.
inline std::string joined(const Names& names, std::string_view none = "") {
  if (names.empty()) return std::string(none);
  std::string all = names.front();
  for (size_t i = 1; i < names.size(); ++i) all += ", " + names[i];
  return all;
}

// Returns `word` of a command in single quotes if a shell would change or split it, else unchanged.
inline std::string quoted(const std::string& word) {
  const bool plain = word.find_first_of(" *?#$&;'\"[]{}<>()|\\`~!") == std::string::npos;
  if (plain && !word.empty()) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace bellows
