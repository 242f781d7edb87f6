// Outlines of the `shapes` data set: signed distances to their edges, negative inside, as exact as
// soft edges need. All fit into the unit disc. No two are equal up to rotation and scale.
#pragma once
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace bellows {

struct Outline {
  const char* name;
  float (*at)(float x, float y);
};

inline float box(float x, float y, float half_width, float half_height) {
  return std::max(std::abs(x) - half_width, std::abs(y) - half_height);
}

inline constexpr Outline kOutlines[] = {
    {"disc", [](float x, float y) { return std::hypot(x, y) - .85f; }},
    {"ring", [](float x, float y) { return std::abs(std::hypot(x, y) - .7f) - .22f; }},
    {"square", [](float x, float y) { return box(x, y, .75f, .75f); }},
    {"frame", [](float x, float y) { return std::abs(box(x, y, .55f, .55f)) - .19f; }},
    {"triangle",
     [](float x, float y) { return std::max(.866f * std::abs(x) + .5f * y, -y) - .5f; }},
    {"bar", [](float x, float y) { return box(x, y, .95f, .27f); }},
    {"cross",
     [](float x, float y) { return std::min(box(x, y, .95f, .27f), box(x, y, .27f, .95f)); }},
    {"corner",
     [](float x, float y) {
       return std::min(box(x + .5f, y, .24f, .75f), box(x, y - .5f, .75f, .24f));
     }},
    {"crescent",
     [](float x, float y) {
       return std::max(std::hypot(x, y) - .95f, .8f - std::hypot(x - .5f, y));
     }},
    {"star",
     [](float x, float y) {
       const float turn = 1.2566f, angle = std::atan2(x, -y);
       const float t = std::abs(angle - turn * std::round(angle / turn)), r = std::hypot(x, y);
       return .81f * r * std::sin(t) + .59f * r * std::cos(t) - .55f;
     }},
};
inline std::vector<std::string> outline_names() {
  std::vector<std::string> names;
  for (const Outline& outline : kOutlines) names.emplace_back(outline.name);
  return names;
}

}  // namespace bellows
