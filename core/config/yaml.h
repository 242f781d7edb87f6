// The strict YAML reader: text to flat Values (core/config/values.h), each with the place it comes
// from. What two YAML readers may read differently is refused: duplicate keys, anchors, aliases,
// tags, merge keys, several documents, keys without a value. Nothing is evaluated, and nothing
// grows past these bounds. Errors end with Exit::usage and read "file:line:column: what is wrong".
// No other file speaks to yaml-cpp.
#pragma once
#include "core/config/values.h"

namespace bellows {

constexpr size_t kYamlBytes = 256 * 1024;
constexpr size_t kYamlNodes = 10'000;
constexpr size_t kYamlDepth = 32;
constexpr size_t kYamlKeyLength = 100;

// `name` stands for the file in origins and messages.
Values parse_yaml(const std::string& text, const std::string& name);
Values read_yaml(const std::string& path);  // a regular file

// "optimizer.lr=0.1", "model.layers=[flatten, {name: linear, out: 10}]", "toggles={amp: bf16}": a
// key with a value in YAML, as a command line has them.
Values parse_override(const std::string& assignment);

}  // namespace bellows
