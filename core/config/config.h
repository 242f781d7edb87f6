// Configuration of a run: a config file, its base files, and `key=value` on the command line.
//
// The strict YAML reader turns text into flat Values (core/config/values.h), each with its origin.
// It refuses YAML that two readers may understand differently: duplicate keys, anchors, aliases,
// tags, merge keys, several documents, keys without a value. Nothing is evaluated, and input beyond
// the limits below is refused. Throws Error, exit 2, with "file:line:column: what is wrong". Only
// core/config/config.cpp uses yaml-cpp.
#pragma once
#include "core/config/values.h"

namespace bellows {

constexpr size_t kYamlBytes = 256 * 1024;
constexpr size_t kYamlNodes = 10'000;
constexpr size_t kYamlDepth = 32;
constexpr size_t kYamlKeyLength = 100;
constexpr size_t kConfigFiles = 32;  // a config and all its bases

// Parses YAML. `name` is the file name in origins and messages.
Values parse_yaml(const std::string& text, const std::string& name);
Values read_yaml(const std::string& path);  // refuses all but regular files

// Parses an argument of the command line: a key and its value in YAML, as in "optimizer.lr=0.1",
// "model.layers=[flatten, {name: linear, out: 10}]" or "toggles={amp: bf16}".
Values parse_override(const std::string& assignment);

// Returns the bases of a config file and then its own values, in the order to load them. `base:
// other.yaml`, or a list of files, is relative to the file that contains it. Refuses cycles. Throws
// Error as the YAML reader does.
std::vector<Values> read_config(const std::string& path);

// Parses the assignments into one source, so their order does not matter. Refuses repeated keys.
Values parse_overrides(const std::vector<std::string>& assignments);

// Returns the sources of a verb: the bases, the file (none if `path` is ""), the command line.
std::vector<Values> sources_of(const std::string& path,
                               const std::vector<std::string>& assignments);

}  // namespace bellows
