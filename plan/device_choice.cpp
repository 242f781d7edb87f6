#include "plan/device_choice.h"
#include "core/config/visitor.h"

namespace bellows {

static const std::string kNumbered = "cuda:";

static constexpr const char* kNames[] = {"auto", "cpu", "cuda"};

std::string DeviceChoice::text() const {
  return gpu ? kNumbered + std::to_string(*gpu) : kNames[kind];
}

static bool read(const std::string& text, DeviceChoice& choice) {
  for (const auto kind : {DeviceChoice::automatic, DeviceChoice::cpu, DeviceChoice::cuda})
    if (text == kNames[kind]) return choice = kind, true;
  int gpu = 0;
  if (!text.starts_with(kNumbered)) return false;
  if (!option_of(gpu, {.min = 0}).read(text.substr(kNumbered.size()))) return false;
  choice = {DeviceChoice::cuda, gpu};
  return true;
}

Option option_of(DeviceChoice& choice, Bounds) {
  return {choice.text(), "auto or cpu or cuda or cuda:N",
          [&choice](const std::string& text) { return read(text, choice); }};
}

}  // namespace bellows
