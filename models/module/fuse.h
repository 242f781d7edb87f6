// The fuse pass: neighbours in a Sequential that one op can do become one module that does it.
//
// A pattern is a file that registers itself. A fused module keeps the modules it replaces as its
// children, under their own names, so parameters, checkpoints and initial values stay the same.
#pragma once
#include <map>
#include <span>
#include "models/module/module.h"

namespace bellows {

template <class Layer> bool is(const Child& child) {
  return dynamic_cast<const Layer*>(child.module.get());
}
inline bool is_kind(const Child& child, std::string_view kind) {
  return child.module->kind() == kind;
}

// What a pattern makes of its window: the modules it replaces are its children.
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
  const char* name;  // also its option, model.fuse.<name>, and its counter, fuse.<name>
  const char* help;
  size_t length;  // modules it replaces
  bool (*matches)(std::span<Child> window);
  ModulePtr (*fuse)(std::span<Child> window);  // takes the modules over
  bool last = false;                           // looks at what the others have left and made
};
std::vector<FusePattern>& fuse_patterns();
struct AddPattern {
  explicit AddPattern(const FusePattern& pattern, const char* file = __builtin_FILE()) {
    registered_files().insert(file);
    fuse_patterns().push_back(pattern);
  }
};

// Which patterns are wanted, by name; silent: not wanted.
struct FuseOptions {
  std::map<std::string, bool> wanted;
};
void visit(Visitor& v, FuseOptions& o);

// Rewrites every Sequential of the tree, the longest wanted pattern first at each place, and once
// more by the patterns that come last. One line for each match: "conv_act_pool: conv1 + relu1 +
// pool1". Call before name_all().
std::vector<std::string> fuse(Module& root, const FuseOptions& options);

}  // namespace bellows
