// One `visit(Visitor&, Options&)` per options struct serves loading, overrides, help, the printed
// plan and the comparison of plans. The Visitor is virtual, not a template, because it also has to
// reach the options of a registered entry, whose type only that entry's file knows.
#pragma once
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>
#include "core/config/choice.h"

namespace bellows {

using Names = std::vector<std::string>;

// What a number may be, both ends included.
struct Bounds {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

// An option as text, whatever its type.
struct Option {
  std::string text;                              // its value
  std::string accepts;                           // "a whole number >= 1", "sequential or shuffled"
  std::function<bool(const std::string&)> read;  // sets it; false if the text is no such value
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

  // A bool, int, double or string.
  template <class T>
  void operator()(const char* key, T& value, const char* help, Bounds bounds = {}) {
    option(prefix_ + key, option_of(value, bounds), help);
  }
  // An enum, by the names of its values in their order.
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
  // Options of another component, as "key.<each of its keys>".
  template <class Options> void group(const char* key, Options& options) {
    const Inside inside(*this, std::string(key) + ".");
    visit(*this, options);
  }
  // The name of a registered entry and, beside it, the options that this entry brings.
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
  // A list of maps, each with the keys of an Options.
  template <class Options>
  void groups(const char* key, std::vector<Options>& list, const char* help) {
    each(key, list, help, [&](Options& item) { visit(*this, item); });
  }
  // What has to hold of an option besides its bounds, as "is not empty".
  void require(const char* key, bool holds, const char* what) {
    if (!holds) unmet(prefix_ + key, what);
  }

 protected:
  virtual void option(const std::string& key, const Option& option, const char* help) = 0;
  // How many items the visitor brings in place of those that are there `now`; none: keep them.
  virtual std::optional<size_t> list_size(const std::string& key, size_t now, const char* help) = 0;
  virtual void unmet(const std::string&, const char*) {}  // only those mind who bring values

 private:
  struct Inside {
    Inside(Visitor& visitor, const std::string& key) : visitor(visitor), outer(visitor.prefix_) {
      visitor.prefix_ += key;
    }
    ~Inside() { visitor.prefix_ = outer; }
    Visitor& visitor;
    std::string outer;
  };
  // A new list starts from fresh items, or an old item's options would leak into its successor.
  template <class List> static void replace(List& list, std::optional<size_t> size) {
    if (!size) return;
    list.clear();
    list.resize(*size);
  }
  template <class Item, class Fn>
  void each(const char* key, std::vector<Item>& list, const char* help, const Fn& fn) {
    replace(list, list_size(prefix_ + key, list.size(), help));
    for (size_t i = 0; i < list.size(); ++i) {
      const Inside inside(*this, item(key, i) + ".");
      fn(list[i]);
    }
  }
  std::string item(const char* key, size_t i) const {
    return std::string(key) + "." + std::to_string(i);
  }

  std::string prefix_;
};

}  // namespace bellows
