// Choice: an entry of an open collection, selected by name, with the options that only this entry
// has. Choice<Made(Context)> creates a Made from a Context and the entry's options.
#pragma once
#include <any>
#include <functional>
#include <map>
#include <string>
#include "core/base/check.h"
#include "core/base/registry.h"
#include "core/base/words.h"

namespace bellows {

class Visitor;

template <class Signature> struct Entry;
template <class R, class... Args> struct Entry<R(Args...)> {
  std::string help;
  std::any (*defaults)();
  void (*visit)(Visitor& visitor, std::any& options);
  std::function<R(const std::any& options, Args... args)> make;
};

// Returns all entries of the collection. The order is by name and independent of link order.
template <class Signature> std::map<std::string, Entry<Signature>>& entries() {
  static std::map<std::string, Entry<Signature>> all;
  return all;
}

// Names of entries in other frameworks, by the name here.
inline std::map<std::string, Names>& entry_names() {
  static std::map<std::string, Names> all;
  return all;
}

template <class Signature> struct AddEntry;
template <class R, class... Args> struct AddEntry<R(Args...)> {
  // Registers an entry. `Options` needs a function `visit(Visitor&, Options&)` in its namespace.
  // `elsewhere`: the entry's names in other frameworks.
  template <class Options>
  AddEntry(const char* name, const char* help, R (*make)(const Options&, Args...),
           const Names& elsewhere = {}, const char* file = __builtin_FILE()) {
    note_registration(file);
    if (!elsewhere.empty()) entry_names()[name] = elsewhere;
    const Entry<R(Args...)> entry = {
        help, [] { return std::any(Options{}); },
        [](Visitor& visitor, std::any& any) { visit(visitor, std::any_cast<Options&>(any)); },
        [make](const std::any& any, Args... args) -> R {
          return make(std::any_cast<const Options&>(any), std::forward<Args>(args)...);
        }};
    INVARIANT(entries<R(Args...)>().emplace(name, entry).second, "two entries are named '", name,
              "'");
  }
};

struct NoOptions {};
inline void visit(Visitor&, NoOptions&) {}

template <class Signature> class Choice;

template <class R, class... Args> class Choice<R(Args...)> {
 public:
  Choice() = default;  // nothing chosen yet: an item of a list before it is read
  explicit Choice(const std::string& name) { choose(name); }

  const std::string& name() const { return name_; }
  static Names names() {
    Names names;
    for (const auto& [name, entry] : entries<R(Args...)>()) names.push_back(name);
    return names;
  }
  // Selects an entry and its default options. If it is selected already, it keeps its options, so a
  // file may repeat the name from its base file. Throws Error, exit 2, for an unknown name.
  void choose(const std::string& name) {
    if (name == name_) return;
    const auto found = entries<R(Args...)>().find(name);
    CHECK(found != entries<R(Args...)>().end(), "no entry '", name, "' is registered");
    name_ = name;
    options_ = found->second.defaults();
  }
  void visit_options(Visitor& visitor) {
    if (!name_.empty()) entry().visit(visitor, options_);
  }
  R make(Args... args) const { return entry().make(options_, std::forward<Args>(args)...); }
  // Returns the options of the entry, for code that sets them without text.
  template <class Options> Options& as() { return std::any_cast<Options&>(options_); }

 private:
  const Entry<R(Args...)>& entry() const {
    CHECK(!name_.empty(), "nothing is chosen");
    return entries<R(Args...)>().at(name_);
  }

  std::string name_;
  std::any options_;  // has the entry's type; copying a Choice copies it
};

}  // namespace bellows
