// JSON as stored in a run folder: one object per line, keys in insertion order. A file that reads
// or builds objects also includes <nlohmann/json.hpp>, which takes a compiler half a second.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include "core/base/file.h"

namespace bellows {

using Json = nlohmann::ordered_json;

// Returns the object as one line of ASCII, which needs no escaping when printed. NaN and Inf, which
// JSON lacks, become null; invalid UTF-8 becomes U+FFFD.
std::string to_line(const Json& object);

// Limits on JSON from files. Nested values are copied, printed and compared by recursion.
constexpr int64_t kJsonBytes = int64_t{1} << 28;
constexpr size_t kJsonDepth = 32, kJsonValues = size_t{1} << 22;
constexpr double kLeastNumber = 1e-50, kMostNumber = 1e50;  // quotients of such numbers stay finite

// Parses JSON that may come from anybody. Numbers closer to 0 than kLeastNumber are read as 0, and
// an object keeps keys that appear twice. Returns a discarded value, and the reason in `why`, if
// the text is no JSON or exceeds a limit.
Json parse_json(std::string_view text, std::string* why = nullptr);

// Reads a file that holds one JSON value, as parse_json() does. Throws Error(exit).
Json read_json(const Path& path, Exit exit);

}  // namespace bellows
