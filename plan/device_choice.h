// DeviceChoice: value of the option `device`: auto, cpu, cuda or cuda:N.
#pragma once
#include <optional>
#include <string>

namespace bellows {

struct Bounds;
struct Option;

struct DeviceChoice {
  enum Kind { automatic, cpu, cuda };

  constexpr DeviceChoice(Kind kind, std::optional<int> gpu = {}) : kind(kind), gpu(gpu) {}
  bool operator==(const DeviceChoice&) const = default;
  std::string text() const;  // "auto", "cuda:1"

  Kind kind;
  std::optional<int> gpu;  // number of the GPU, with cuda:N only; else the first one is used
};
// Lets a Visitor read and print it.
Option option_of(DeviceChoice& choice, Bounds bounds);

}  // namespace bellows
