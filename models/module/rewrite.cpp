#include "models/module/rewrite.h"
#include <algorithm>
#include "core/base/registry.h"
#include "core/config/visitor.h"

namespace bellows {

std::vector<Rewrite>& rewrites() {
  static std::vector<Rewrite> all;
  return all;
}

AddRewrite::AddRewrite(const Rewrite& rewrite, const char* file) {
  note_registration(file);
  rewrites().push_back(rewrite);
}

void visit(Visitor& v, RewriteOptions& o) {
  std::map<std::string, const Rewrite*> by_name;
  for (const Rewrite& rewrite : rewrites()) by_name[rewrite.name] = &rewrite;
  for (const auto& [name, rewrite] : by_name) {
    int64_t& value = o.values[name];
    Marked option;
    if (rewrite->max > 1) {
      option = v(rewrite->name, value, rewrite->help, {.min = 0, .max = double(rewrite->max)});
    } else {
      bool on = value;
      option = v(rewrite->name, on, rewrite->help);
      value = on;
    }
    if (rewrite->drops_parameters) option.fixed(kOtherModel);
  }
}

static bool fits(const Rewrite& fusion, std::span<Child> window) {
  return std::ranges::equal(window, fusion.kinds, is_kind) &&
         (!fusion.matches || fusion.matches(window));
}

static void fuse_in(std::vector<Child>& children, const std::vector<Rewrite>& fusions,
                    std::vector<std::string>& report) {
  for (size_t at = 0; at < children.size(); ++at) {
    for (const Rewrite& fusion : fusions) {
      const size_t length = fusion.kinds.size();
      if (at + length > children.size()) continue;
      const std::span window(children.data() + at, length);
      if (!fits(fusion, window)) continue;
      const std::string name = fusion.name;
      std::string what;  // "conv1 + relu1 + pool1"
      for (const Child& child : window) what += (what.empty() ? "" : " + ") + child.name;
      report.push_back(cat("fused: ", name.substr(name.find('.') + 1), ": ", what));
      children[at] = {"", fusion.fused(window)};
      children.erase(children.begin() + at + 1, children.begin() + at + length);
      break;
    }
  }
}

// Fuses in a module before its children, so the report follows the order of the tree.
static void fuse_tree(Module& module, const std::vector<Rewrite>& fusions,
                      std::vector<std::string>& report) {
  if (dynamic_cast<Sequential*>(&module)) fuse_in(module.children(), fusions, report);
  for (const Child& child : module.children()) fuse_tree(*child.module, fusions, report);
}

std::vector<std::string> rewrite(Module& root, const RewriteOptions& options) {
  std::vector<std::string> report;
  for (const auto stage : {Rewrite::edit, Rewrite::fuse, Rewrite::group}) {
    std::vector<Rewrite> fusions;
    for (const Rewrite& rewrite : rewrites()) {
      if (rewrite.stage != stage || !options.on(rewrite.name)) continue;
      if (rewrite.apply)
        std::ranges::move(rewrite.apply(root, options.values.at(rewrite.name)),
                          std::back_inserter(report));
      else
        fusions.push_back(rewrite);
    }
    std::ranges::stable_sort(fusions, std::greater<>(),
                             [](const Rewrite& fusion) { return fusion.kinds.size(); });
    if (!fusions.empty()) fuse_tree(root, fusions, report);
  }
  return report;
}

}  // namespace bellows
