// JSON as stored in a run folder: one object per line, keys in insertion order. A file that reads
// or builds objects also includes <nlohmann/json.hpp>, which takes a compiler half a second.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace bellows {

using Json = nlohmann::ordered_json;

// Returns the object as one line of ASCII, which needs no escaping when printed. NaN and Inf, which
// JSON lacks, become null; invalid UTF-8 becomes U+FFFD.
std::string to_line(const Json& object);

}  // namespace bellows
