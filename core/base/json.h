// JSON as stored in a run folder: one object per line, keys in insertion order.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace bellows {

using Json = nlohmann::ordered_json;
// Named values of one time step, for metrics.jsonl and TensorBoard.
using Scalars = std::vector<std::pair<std::string, double>>;

// Returns the object as one line of ASCII, which needs no escaping when printed. NaN and Inf, which
// JSON lacks, become null; invalid UTF-8 becomes U+FFFD.
inline std::string to_line(const Json& object) {
  return object.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace bellows
