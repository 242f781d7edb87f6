// Checks of any page of `trainer report`.
#pragma once
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include "core/base/check.h"
#include "core/base/json.h"
#include "core/base/words.h"

namespace bellows {

// Returns the first tag that does not match, or "". Styles and scripts hold no tags.
inline std::string unbalanced(const std::string& html) {
  Names open;
  for (size_t at = html.find('<'); at != html.npos; at = html.find('<', at + 1)) {
    const size_t end = html.find('>', at);
    if (end == html.npos) return html.substr(at, 40);
    const std::string tag = html.substr(at + 1, end - at - 1);
    const size_t begin = tag.starts_with("/");
    const std::string name = tag.substr(begin, tag.find_first_of(" \n/", begin) - begin);
    if (name == "!doctype" || name == "meta" || name == "link" || tag.ends_with("/")) continue;
    if (!begin) {
      open.push_back(name);
      if (name == "style" || name == "script") at = html.find("</" + name, at) - 1;
    } else if (open.empty() || open.back() != name) {
      return tag;
    } else {
      open.pop_back();
    }
  }
  return joined(open);
}

inline void expect_page(const std::string& html) {
  EXPECT_TRUE(html.starts_with("<!doctype html>"));
  EXPECT_EQ(unbalanced(html), "");
  EXPECT_LT(html.size(), 500'000u);
  for (const char* outside : {"http", "src=", "url(", "@import", "fetch(", "XMLHttp"})
    EXPECT_EQ(html.find(outside), html.npos) << outside;
}

// A report as `trainer ab` writes it, whose names and texts are all `text`.
inline Json ab_report(const std::string& text) {
  const Json speedup = {
      {"ratio", 1.5}, {"interval", {1.25, 1.75}}, {"confidence", 0.95}, {"differs", true}};
  const Json process = {{"wall_s_per_step", {0.001, 0.002}},
                        {"peak_tensor_bytes", 1e6},
                        {"peak_resident_bytes", 2e6}};
  const Json arm = {{"name", text},
                    {"loss_by_step", {2.5, 1.5}},
                    {"processes", {process, process}},
                    {"speedup", speedup}};
  Json on = arm;
  on.update({{"answer", text},
             {"losses_hold", false},
             {"losses", text},
             {"losses_apart", {{"arms", {1e-6, 2e-6}}, {"placebo", {2e-6, nullptr}}}},
             {"counters_per_step", {{text, {1, 2}}}}});
  return {{"kind", "ab"},
          {"claim", text},
          {"held", {text}},
          {"differences", {text}},
          {"command", text},
          {"clock", "wall"},
          {"off", arm},
          {"placebo", arm},
          {"on", {on}},
          {"busy", {text}},
          {"machine", {{text, text}}}};
}

}  // namespace bellows
