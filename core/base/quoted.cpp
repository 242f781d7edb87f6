#include "core/base/quoted.h"

namespace bellows {

std::string quoted(const std::string& word) {
  const bool plain = word.find_first_of(" *?#$&;'\"[]{}<>()|\\`~!") == std::string::npos;
  if (plain && !word.empty()) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace bellows
