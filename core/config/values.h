// Options as flat text, "loader.batch" to "128": the form of config files, command lines, printed
// configs and comparisons of plans. Items of a list are "key.0", "key.1" and so on, an empty list
// is key to "[]", and "model" is short for "model.name".
#pragma once
#include <compare>
#include <map>
#include <set>
#include "core/config/visitor.h"

namespace bellows {

inline constexpr const char* kCommandLine = "command line";  // origin of key=value
struct Value {
  std::string text;
  std::string origin = "default";  // or "configs/lenet.yaml:12:3", kCommandLine, ...
  auto operator<=>(const Value&) const = default;
};
using Values = std::map<std::string, Value>;
using Keys = std::set<std::string>;

// Loads one source, which must outlive it. Options not in the source keep their values. A list
// replaces the previous list, and an entry with another name starts from its own defaults. Throws
// Error, exit 2, with the place, the mistake and the remedy. If a map is missing, the message
// suggests its keys, except `reserved` ones, which toggles set.
class Load : public Visitor {
 public:
  explicit Load(const Values& source, const Keys& reserved = {})
      : source_(source), reserved_(reserved) {}
  void refuse_unknown() const;  // call after all options have been visited

 protected:
  void option(const std::string& key, const Option& option, const char* help) override;
  std::optional<size_t> list_size(const std::string& key, size_t now, const char* help) override;
  void report_violation(const std::string& key, const char* what) override;

 private:
  bool gives(const std::string& key) const;  // the key, or a key inside it
  void refuse_nameless(const std::string& key, const Option& option) const;
  std::string problem(const std::string& key) const;

  const Values& source_;
  const Keys reserved_;
  std::map<std::string, std::string> known_;  // what each key accepts
  std::set<std::string> used_;                // keys of the source that an option has read
};

// Lists all options in the order of the visit. With `items`, an empty list shows the options of an
// item.
class Listing : public Visitor {
 public:
  struct Line {
    std::string key, text, accepts, help;  // "width", "64", "a whole number >= 1", "channels"
    bool empty_list() const { return accepts == kList; }  // an empty list, whose text is "[]"
    std::string described() const;                        // "64 (a whole number >= 1): channels"
  };
  explicit Listing(bool items = false) : items_(items) {}
  std::vector<Line> lines;

 protected:
  void option(const std::string& key, const Option& option, const char* help) override;
  std::optional<size_t> list_size(const std::string& key, size_t now, const char* help) override;

 private:
  static constexpr const char* kList = "a list";
  const bool items_;
};

Values values_of(const Listing& listing);

// An option with two different texts.
struct Difference {
  std::string key, a, b;
};
// Returns the differences in the order of the keys. `missing` is the text of a key that only one
// side has.
std::vector<Difference> differences(const Values& a, const Values& b, const std::string& missing);

// Returns nested YAML in the order of the lines, each value followed by its origin. Loading it
// gives the same values.
std::string to_yaml(const Listing& listing, const Values& origins);

// Returns the text as a YAML scalar: plain if it reads back unchanged, else in double quotes.
std::string yaml(const std::string& text);

template <class Options> Values dump(Options options) {
  Listing listing;
  visit(listing, options);
  return values_of(listing);
}

template <class Options> MarksByKey marks_of(Options options) {
  Listing listing;
  visit(listing, options);
  return listing.marks();
}

template <class Options>
Options load(Options options, const Values& source, const Keys& reserved = {}) {
  Load visitor(source, reserved);
  visit(visitor, options);
  visitor.refuse_unknown();
  return options;
}

// Sets the origin of each value in `now`: from `source`, else from `before` if unchanged.
void note_origins(Values& now, const Values& before, const Values& source);

// Loads one more source into the options, and updates the origins of their values.
template <class Options>
void load_onto(Options& options, Values& origins, const Values& source, const Keys& reserved = {}) {
  options = load(options, source, reserved);
  Values now = dump(options);
  note_origins(now, origins, source);
  origins = std::move(now);
}

template <class Options> std::string print(Options options, const Values& origins) {
  Listing listing;
  visit(listing, options);
  return to_yaml(listing, origins);
}

}  // namespace bellows
