#include "models/module/fuse.h"
#include <algorithm>
#include "core/config/visitor.h"
#include "models/module/sequential.h"

namespace bellows {

std::vector<FusePattern>& fuse_patterns() {
  static std::vector<FusePattern> all;
  return all;
}

void visit(Visitor& v, FuseOptions& o) {
  std::map<std::string, const char*> by_name;
  for (const FusePattern& pattern : fuse_patterns()) by_name[pattern.name] = pattern.help;
  for (const auto& [name, help] : by_name) v(name.c_str(), o.wanted[name], help);
}

static std::vector<FusePattern> wanted_patterns(const FuseOptions& options, bool last) {
  std::vector<FusePattern> wanted;
  for (const FusePattern& pattern : fuse_patterns()) {
    const auto found = options.wanted.find(pattern.name);
    if (pattern.last == last && found != options.wanted.end() && found->second)
      wanted.push_back(pattern);
  }
  std::ranges::stable_sort(wanted, std::greater<>(), &FusePattern::length);
  return wanted;
}

// "conv1 + relu1 + pool1". A fused module has no name; its children are listed instead.
static std::string names_of(std::span<const Child> window) {
  std::string names;
  for (const Child& child : window)
    names += (names.empty() ? "" : " + ") +
             (child.name.empty() ? names_of(child.module->children()) : child.name);
  return names;
}

static void fuse_in(std::vector<Child>& children, const std::vector<FusePattern>& patterns,
                    std::vector<std::string>& report) {
  for (size_t at = 0; at < children.size(); ++at) {
    for (const FusePattern& pattern : patterns) {
      if (at + pattern.length > children.size()) continue;
      const std::span window(children.data() + at, pattern.length);
      if (!pattern.matches(window)) continue;
      report.push_back(cat(pattern.name, ": ", names_of(window)));
      children[at] = {"", pattern.fuse(window)};
      children.erase(children.begin() + at + 1, children.begin() + at + pattern.length);
      break;
    }
  }
}

std::vector<std::string> fuse(Module& root, const FuseOptions& options) {
  std::vector<std::string> report;
  for (const bool last : {false, true}) {
    const std::vector<FusePattern> patterns = wanted_patterns(options, last);
    const auto walk = [&](const auto& self, Module& module) -> void {
      if (dynamic_cast<Sequential*>(&module)) fuse_in(module.children(), patterns, report);
      for (const Child& child : module.children()) self(self, *child.module);
    };
    walk(walk, root);
  }
  return report;
}

}  // namespace bellows
