// Rewrites: an open collection of edits of a model's tree. Each keeps the model's function and the
// names of the remaining parameters, and is a file that registers itself. A fusion replaces
// adjacent modules of a Sequential with one module that runs a fused op; that module keeps them as
// children under their own names, so parameters, checkpoints and initial values stay the same.
#pragma once
#include <functional>
#include <map>
#include <span>
#include "core/base/trace.h"
#include "models/module/sequential.h"

namespace bellows {

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
// A fusion that is a function of its first module: run(first, x).
template <trace::CounterName name, class First, auto run> class FusedInto final : public Fused {
 public:
  explicit FusedInto(std::span<Child> window) : Fused(window), first_(child<First>(0)) {}
  const char* kind() const override { return name.text; }

 protected:
  Tensor forward(const Tensor& x) override { return std::invoke(run, first_, x); }

 private:
  First& first_;
};
template <class Made> ModulePtr make_fused(std::span<Child> window) {
  return std::make_unique<Made>(window);
}

struct Rewrite {
  const char* name;  // its option is model.<name>; the name of a fusion begins with "fuse."
  const char* help;
  int64_t max = 1;                // largest value of the option, 0 is off; 1: the option is a bool
  bool drops_parameters = false;  // the model has fewer parameters; losses are close, not equal
  // Stages run in this order. Fusions share a pass: at each position the longest is tried first.
  enum Stage { edit, fuse, group } stage = fuse;
  // Edits the tree and returns one line per change. `value`: the option's value, not 0.
  std::vector<std::string> (*apply)(Module& root, int64_t value) = nullptr;
  // A fusion has the following members instead:
  std::vector<std::string_view> kinds = {};            // kinds of the modules that it replaces
  bool (*matches)(std::span<Child> window) = nullptr;  // null: modules of these kinds always match
  ModulePtr (*fused)(std::span<Child> window) = nullptr;  // takes ownership of the modules
};
std::vector<Rewrite>& rewrites();
struct AddRewrite {
  explicit AddRewrite(const Rewrite& rewrite, const char* file = __builtin_FILE());
};

// Values of the rewrites' options by name; absent means 0, off.
struct RewriteOptions {
  std::map<std::string, int64_t> values;
  bool on(const std::string& name) const { return values.contains(name) && values.at(name); }
};
void visit(Visitor& v, RewriteOptions& o);

// Calls fn(path, module) for each Sequential of the tree, children first. Modules that fn inserts
// are not visited.
template <class Fn> void each_sequential(Module& root, const Fn& fn, const std::string& path = "") {
  for (const Child& child : root.children())
    each_sequential(*child.module, fn, path_below(path, child.name));
  if (auto* const sequential = dynamic_cast<Sequential*>(&root)) fn(path, *sequential);
}

// Applies the enabled rewrites. Returns one line per change: "fused: conv_act_pool: conv1 + relu1 +
// pool1". Call before name_all().
std::vector<std::string> rewrite(Module& root, const RewriteOptions& options);

}  // namespace bellows
