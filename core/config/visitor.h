// Visitor of options. One `visit(Visitor&, Options&)` per options struct serves loading, overrides,
// help, printing and comparison. The Visitor is virtual, not a template, because it also visits the
// options of registered entries, whose type only the entry's file knows.
#pragma once
#include <functional>
#include <limits>
#include <map>
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

// An option of any type, as text. The Option refers to the variable that it was made from.
struct Option {
  std::string text;                              // its value
  std::string accepts;                           // "a whole number >= 1", "sequential or shuffled"
  std::function<bool(const std::string&)> read;  // sets it; false if the text is not valid
};
Option make_option(bool& value, Bounds = {});
Option make_option(int& value, Bounds bounds = {});
Option make_option(int64_t& value, Bounds bounds = {});
Option make_option(uint64_t& value, Bounds bounds = {});
Option make_option(double& value, Bounds bounds = {});
Option make_option(std::string& value, Bounds = {});
Option one_of(const Names& names, const std::string& value, std::function<void(size_t)> set);

// Results of a run that a changed option makes outdated.
enum class Forget { nothing, target, best, rate, rate_history };

// Properties of an option that do not depend on its type. Only a branch can change an unmarked
// option: a run in a folder of its own that starts from a checkpoint of another run.
struct Marks {
  enum Change { unmarked, branch, resumable, fixed };
  Change change = unmarked;
  const char* why = "";  // for fixed: the reason, and what to do instead
  Forget forgets = Forget::nothing;
  Names elsewhere;  // its names in other frameworks
};
using MarksByKey = std::map<std::string, Marks>;

// Marks the options that a Visitor, which must outlive it, has just visited:
//   v("lr", o.lr, "peak learning rate").also({"learning_rate"});
class Marked {
 public:
  Marked() = default;
  explicit Marked(Marks& marks) : all_{&marks} {}
  void add(const Marked& more) { all_.insert(all_.end(), more.all_.begin(), more.all_.end()); }

  // The same run may change the option; for a group, each of its options without another mark.
  Marked& resumable() { return change(Marks::resumable); }
  // Only a branch may change the option, although its group is resumable.
  Marked& in_a_branch() { return change(Marks::branch); }
  // No resumed run may change the option. `why`: the reason, and what to do instead.
  Marked& fixed(const char* why) { return change(Marks::fixed, why); }
  Marked& forgets(Forget result) {
    for (Marks* marks : all_) marks->forgets = result;
    return *this;
  }
  Marked& also(const Names& elsewhere) {
    for (Marks* marks : all_) marks->elsewhere = elsewhere;
    return *this;
  }

 private:
  Marked& change(Marks::Change change, const char* why = "") {
    for (Marks* marks : all_)
      if (marks->change == Marks::unmarked) marks->change = change, marks->why = why;
    return *this;
  }
  std::vector<Marks*> all_;
};

class Visitor {
 public:
  virtual ~Visitor() = default;

  // A bool, integer, double or string.
  template <class T>
  Marked operator()(const char* key, T& value, const char* help, Bounds bounds = {}) {
    return show(key, make_option(value, bounds), help);
  }
  // An enum. `names` has the names of its values, in declaration order.
  template <class Enum>
  Marked operator()(const char* key, Enum& value, const Names& names, const char* help) {
    const auto set = [&value](size_t i) { value = static_cast<Enum>(i); };
    return show(key, one_of(names, names.at(static_cast<size_t>(value)), set), help);
  }
  // A string that must be one of `names`.
  Marked operator()(const char* key, std::string& value, const Names& names, const char* help) {
    const auto set = [&, names](size_t i) { value = names[i]; };
    return show(key, one_of(names, value, set), help);
  }
  // A list of bools, numbers or strings.
  template <class T>
  Marked list(const char* key, std::vector<T>& values, const char* help, Bounds bounds = {}) {
    Marked all = resize(key, values, help);
    for (size_t i = 0; i < values.size(); ++i)
      all.add(show(item(key, i), make_option(values[i], bounds), help));
    return all;
  }
  // Options of another component, as "key.<its keys>".
  template <class Options> Marked group(const char* key, Options& options) {
    const Scoped inside(prefix_, prefix_ + key + ".");
    visit(*this, options);
    Marked all;
    for (auto at = marks_.lower_bound(prefix_);
         at != marks_.end() && at->first.starts_with(prefix_); ++at)
      all.add(Marked(at->second));
    return all;
  }
  // A registered entry: its name under `key`, and the options of that entry beside it. A mark of
  // the choice does not apply to those options.
  template <class Signature>
  Marked choice(const char* key, Choice<Signature>& choice, const char* help) {
    const Names names = choice.names();
    const auto set = [&choice, names](size_t i) { choice.choose(names[i]); };
    const Marked name = show(key, one_of(names, choice.name(), set), help);
    choice.visit_options(*this);
    return name;
  }
  // A list of registered entries: each item is a name, or a map with `name` and its options. A mark
  // concerns the list and the names.
  template <class Signature>
  Marked choices(const char* key, std::vector<Choice<Signature>>& list, const char* help) {
    return each(key, list, help,
                [&](Choice<Signature>& item) { return choice("name", item, help); });
  }
  // A list of maps, each with the keys of `Options`. A mark concerns the list.
  template <class Options>
  Marked groups(const char* key, std::vector<Options>& list, const char* help) {
    return each(key, list, help, [&](Options& item) { return visit(*this, item), Marked(); });
  }
  // A condition beyond the bounds. `what` states it, as in "is less than 1".
  void require(const char* key, bool holds, const char* what) {
    if (!holds) report_violation(prefix_ + key, what);
  }
  // Marks of the options visited so far, and of lists.
  const MarksByKey& marks() const { return marks_; }

 protected:
  virtual void option(const std::string& key, const Option& option, const char* help) = 0;
  // Returns the number of items that replace the `now` existing ones; nullopt keeps those.
  virtual std::optional<size_t> list_size(const std::string& key, size_t now, const char* help) = 0;
  virtual void report_violation(const std::string&, const char*) {
  }  // ignored unless the visitor loads values

 private:
  Marked show(const std::string& key, const Option& made, const char* help) {
    option(prefix_ + key, made, help);
    return Marked(marks_[prefix_ + key]);
  }
  // A new list starts from default items, so no option of an old item leaks into its successor.
  template <class List> Marked resize(const char* key, List& list, const char* help) {
    if (const auto size = list_size(prefix_ + key, list.size(), help)) {
      list.clear();
      list.resize(*size);
    }
    return Marked(marks_[prefix_ + key]);
  }
  // Adds what `fn` has marked to the marks of the list.
  template <class Item, class Fn>
  Marked each(const char* key, std::vector<Item>& list, const char* help, const Fn& fn) {
    Marked all = resize(key, list, help);
    for (size_t i = 0; i < list.size(); ++i) {
      const Scoped inside(prefix_, prefix_ + item(key, i) + ".");
      all.add(fn(list[i]));
    }
    return all;
  }
  std::string item(const char* key, size_t i) const {
    return std::string(key) + "." + std::to_string(i);
  }

  std::string prefix_;
  MarksByKey marks_;
};

}  // namespace bellows
