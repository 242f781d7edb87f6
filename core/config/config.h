// Configuration of a run: a config file, its base files, and `key=value` on the command line.
#pragma once
#include "core/config/values.h"

namespace bellows {

constexpr size_t kConfigFiles = 32;  // limit on a config and all its bases

// Returns the bases of a config file and then its own values, in the order to load them. `base:
// other.yaml`, or a list of files, is relative to the file that contains it. Refuses cycles. Throws
// Error as the YAML reader does.
std::vector<Values> read_config(const std::string& path);

// Replaces a leading ~ by $HOME, for paths that no shell has expanded.
std::string with_home(const std::string& path);

// Parses the assignments into one source, so their order does not matter. Refuses repeated keys.
Values parse_overrides(const std::vector<std::string>& assignments);

// Returns the sources of a verb: the bases, the file (none if `path` is ""), the command line.
std::vector<Values> read_sources(const std::string& path,
                                 const std::vector<std::string>& assignments);

struct ConfigLine {
  std::string key, value;  // "toggles.num_workers", "2"
  std::string note = {};   // comment of its line, or ""
};
// Writes a config that extends `base` by the settings, one line each. The lines of `head` come
// first, as comments. Throws Error (exit 8).
void write_extension(const std::string& file, const std::string& base,
                     const std::vector<ConfigLine>& settings, const std::string& head = "");

}  // namespace bellows
