// The fuse pass: replaces adjacent modules of a Sequential with one module that runs a fused op.
//
// Each pattern is a file that registers itself. A fused module keeps the modules it replaces as
// children under their own names, so parameters, checkpoints and initial values stay the same.
#pragma once
#include <map>
#include <span>
#include "models/module/module.h"

namespace bellows {

class Visitor;

template <class Layer> bool is(const Child& child) {
  return dynamic_cast<const Layer*>(child.module.get());
}
inline bool is_kind(const Child& child, std::string_view kind) {
  return child.module->kind() == kind;
}

// Base of fused modules. Takes ownership of the modules in the matched window as its children.
class Fused : public Module {
 protected:
  explicit Fused(std::span<Child> window) {
    for (Child& child : window) add_child(child.name, std::move(child.module));
  }
  template <class Layer> Layer& child(size_t i) {
    return dynamic_cast<Layer&>(*children()[i].module);
  }
};
template <class Made> ModulePtr make_fused(std::span<Child> window) {
  return std::make_unique<Made>(window);
}

struct FusePattern {
  const char* name;  // also names its option, model.fuse.<name>
  const char* help;
  size_t length;  // number of modules it replaces: size of `window`
  bool (*matches)(std::span<Child> window);
  ModulePtr (*fuse)(std::span<Child> window);  // takes ownership of the window's modules
  bool last = false;                           // runs after all other patterns, on their result
};
std::vector<FusePattern>& fuse_patterns();
struct AddPattern {
  explicit AddPattern(const FusePattern& pattern, const char* file = __builtin_FILE()) {
    registered_files().insert(file);
    fuse_patterns().push_back(pattern);
  }
};

// Enabled patterns by name; absent means disabled.
struct FuseOptions {
  std::map<std::string, bool> wanted;
};
void visit(Visitor& v, FuseOptions& o);

// Rewrites every Sequential of the tree with the enabled patterns. At each position the longest
// pattern is tried first. A second pass applies the patterns with `last`. Returns one line per
// match: "conv_act_pool: conv1 + relu1 + pool1". Call before name_all().
std::vector<std::string> fuse(Module& root, const FuseOptions& options);

}  // namespace bellows
