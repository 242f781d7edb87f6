// What the verbs print.
#pragma once
#include <string>
#include <string_view>
#include <vector>
#include "core/output.h"

namespace bellows {

// "a, b"; of no names: `none`.
std::string joined(const std::vector<std::string>& names, std::string_view none = "");

}  // namespace bellows
