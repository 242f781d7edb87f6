// Formats counts and lists for messages.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bellows {

using Names = std::vector<std::string>;

// Returns "1 epoch", "2 epochs", "0 epochs".
inline std::string count_of(int64_t n, std::string_view noun) {
  return std::to_string(n) + " " + std::string(noun) + (n == 1 ? "" : "s");
}

// Returns "a, b", or `none` if there are no names.
inline std::string joined(const Names& names, std::string_view none = "") {
  if (names.empty()) return std::string(none);
  std::string all = names.front();
  for (size_t i = 1; i < names.size(); ++i) all += ", " + names[i];
  return all;
}

}  // namespace bellows
