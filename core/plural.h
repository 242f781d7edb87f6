// Numbers with their nouns, for messages.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace bellows {

// "1 epoch", "2 epochs", "0 epochs".
inline std::string count_of(int64_t n, std::string_view noun) {
  return std::to_string(n) + " " + std::string(noun) + (n == 1 ? "" : "s");
}

}  // namespace bellows
