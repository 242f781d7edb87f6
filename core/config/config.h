// What a run is told: a config file, the files it is based on, and `key=value` on the command line.
#pragma once
#include "core/config/values.h"

namespace bellows {

constexpr size_t kConfigFiles = 32;  // a config and all its bases

// The file behind its bases, in the order in which they are to be loaded. `base: other.yaml`, or a
// list of them, is relative to the file that says so; a ring is refused. Throws Error as the YAML
// reader does.
std::vector<Values> read_config(const std::string& path);

// One source, so that its order does not matter; a key given twice is refused.
Values parse_overrides(const std::vector<std::string>& assignments);

// What a verb is told: the file with its bases, none for "", and behind them the command line.
std::vector<Values> sources_of(const std::string& path,
                               const std::vector<std::string>& assignments);

}  // namespace bellows
