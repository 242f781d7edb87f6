// Visitor of options. One `visit(Visitor&, Options&)` per options struct serves loading, overrides,
// help, printing and comparison. The Visitor is virtual, not a template, because it also visits the
// options of registered entries, whose type only the entry's file knows.
#pragma once
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>
#include "core/base/check.h"
#include "core/base/scoped.h"
#include "core/base/words.h"

namespace bellows {

template <class Signature> class Choice;

// Range of a numeric option, both ends included. auto_is_min: `min` stands for a value that the
// program finds itself, and is written "auto".
struct Bounds {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool auto_is_min = false;
};

// An option of any type, as text. It refers to the variable that it was made from.
struct Option {
  std::string text;                              // its value
  std::string accepts;                           // "a whole number >= 1", "sequential or shuffled"
  std::function<bool(const std::string&)> read;  // sets it; false if the text is not valid
};
Option option_of(bool& value, Bounds = {});
Option option_of(int& value, Bounds bounds = {});
Option option_of(int64_t& value, Bounds bounds = {});
Option option_of(uint64_t& value, Bounds bounds = {});
Option option_of(double& value, Bounds bounds = {});
Option option_of(std::string& value, Bounds = {});
Option one_of(const Names& names, const std::string& value, std::function<void(size_t)> set);

class Visitor {
 public:
  virtual ~Visitor() = default;

  // A bool, integer, double or string.
  template <class T>
  void operator()(const char* key, T& value, const char* help, Bounds bounds = {}) {
    option(prefix_ + key, option_of(value, bounds), help);
  }
  // An enum. `names`: of its values, in declaration order.
  template <class Enum>
  void operator()(const char* key, Enum& value, const Names& names, const char* help) {
    const auto set = [&value](size_t i) { value = static_cast<Enum>(i); };
    option(prefix_ + key, one_of(names, names.at(static_cast<size_t>(value)), set), help);
  }
  // One of these names.
  void operator()(const char* key, std::string& value, const Names& names, const char* help) {
    const auto set = [&, names](size_t i) { value = names[i]; };
    option(prefix_ + key, one_of(names, value, set), help);
  }
  // A list of bools, numbers or strings.
  template <class T>
  void list(const char* key, std::vector<T>& values, const char* help, Bounds bounds = {}) {
    replace(values, list_size(prefix_ + key, values.size(), help));
    for (size_t i = 0; i < values.size(); ++i)
      option(prefix_ + item(key, i), option_of(values[i], bounds), help);
  }
  // Options of another component, as "key.<its keys>".
  template <class Options> void group(const char* key, Options& options) {
    const Scoped inside(prefix_, prefix_ + key + ".");
    visit(*this, options);
  }
  // A registered entry: its name under `key`, and next to it the options of that entry.
  template <class Signature>
  void choice(const char* key, Choice<Signature>& choice, const char* help) {
    const Names names = choice.names();
    const auto set = [&choice, names](size_t i) { choice.choose(names[i]); };
    option(prefix_ + key, one_of(names, choice.name(), set), help);
    choice.visit_options(*this);
  }
  // A list of registered entries: each item is a name, or a map with `name` and its options.
  template <class Signature>
  void choices(const char* key, std::vector<Choice<Signature>>& list, const char* help) {
    each(key, list, help, [&](Choice<Signature>& item) { choice("name", item, help); });
  }
  // A list of maps, each with the keys of `Options`.
  template <class Options>
  void groups(const char* key, std::vector<Options>& list, const char* help) {
    each(key, list, help, [&](Options& item) { visit(*this, item); });
  }
  // A condition beyond the bounds. `what` states it, as in "is less than 1".
  void require(const char* key, bool holds, const char* what) {
    if (!holds) report_violation(prefix_ + key, what);
  }

 protected:
  virtual void option(const std::string& key, const Option& option, const char* help) = 0;
  // Returns the number of items that replace the `now` existing ones; nullopt keeps those.
  virtual std::optional<size_t> list_size(const std::string& key, size_t now, const char* help) = 0;
  virtual void report_violation(const std::string&, const char*) {
  }  // ignored unless the visitor loads values

 private:
  // A new list starts from default items, or options of an old item would leak into its successor.
  template <class List> static void replace(List& list, std::optional<size_t> size) {
    if (!size) return;
    list.clear();
    list.resize(*size);
  }
  template <class Item, class Fn>
  void each(const char* key, std::vector<Item>& list, const char* help, const Fn& fn) {
    replace(list, list_size(prefix_ + key, list.size(), help));
    for (size_t i = 0; i < list.size(); ++i) {
      const Scoped inside(prefix_, prefix_ + item(key, i) + ".");
      fn(list[i]);
    }
  }
  std::string item(const char* key, size_t i) const {
    return std::string(key) + "." + std::to_string(i);
  }

  std::string prefix_;
};

}  // namespace bellows
