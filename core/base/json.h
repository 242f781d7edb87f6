// JSON as the run folder stores it: one object a line, keys in the order they were given.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace bellows {

using Json = nlohmann::ordered_json;
// Named values of one time step, for metrics.jsonl and TensorBoard.
using Scalars = std::vector<std::pair<std::string, double>>;

// NaN and Inf, which JSON has not, become null; a byte that is no UTF-8 becomes U+FFFD. All in
// ASCII, so that there is nothing to escape where it is printed.
inline std::string to_line(const Json& object) {
  return object.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace bellows
