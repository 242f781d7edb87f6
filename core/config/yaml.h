// Strict YAML reader: text to flat Values (core/config/values.h), each with its origin. Refuses
// YAML that two readers may understand differently: duplicate keys, anchors, aliases, tags, merge
// keys, several documents, keys without a value. Nothing is evaluated, and input beyond the limits
// below is refused. Throws Error, exit 2, with "file:line:column: what is wrong". Only
// core/config/yaml.cpp uses yaml-cpp.
#pragma once
#include "core/config/values.h"

namespace bellows {

constexpr size_t kYamlBytes = 256 * 1024;
constexpr size_t kYamlNodes = 10'000;
constexpr size_t kYamlDepth = 32;
constexpr size_t kYamlKeyLength = 100;

// Parses YAML. `name` is the file name in origins and messages.
Values parse_yaml(const std::string& text, const std::string& name);
Values read_yaml(const std::string& path);  // refuses all but regular files

// Parses an argument of the command line: a key and its value, as in "optimizer.lr=0.1". The value
// is taken as the shell passed it, unless it is a list, a map or in quotes, which are YAML:
// "model.layers=[flatten, {name: linear, out: 10}]", "toggles={amp: bf16}".
Values parse_override(const std::string& assignment);

}  // namespace bellows
