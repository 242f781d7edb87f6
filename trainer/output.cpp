#include "trainer/output.h"
#include <fmt/format.h>

namespace bellows {

std::string joined(const std::vector<std::string>& names, std::string_view none) {
  return names.empty() ? std::string(none) : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace bellows
