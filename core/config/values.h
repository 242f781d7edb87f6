// Options as flat text, "loader.batch" to "128": what a file and a command line say, what a run
// prints, and how two plans are compared. Items of a list are "key.0", "key.1" and so on, an empty
// list is key to "[]", and "model" is short for "model.name".
#pragma once
#include <compare>
#include <map>
#include <set>
#include "core/config/visitor.h"

namespace bellows {

struct Value {
  std::string text;
  std::string origin = "default";  // or "configs/lenet.yaml:12:3", "command line", ...
  auto operator<=>(const Value&) const = default;
};
using Values = std::map<std::string, Value>;
using Keys = std::set<std::string>;

// Reads one source. What it does not mention stays, but a list replaces the list that was there,
// and an entry of another name brings its own defaults. Throws Error with where, what and what to
// type instead; it does not suggest `reserved` keys, which are set elsewhere.
class Load : public Visitor {
 public:
  explicit Load(const Values& source, const Keys& reserved = {})
      : source_(source), reserved_(reserved) {}
  void refuse_unknown() const;  // once all options have been visited

 protected:
  void option(const std::string& key, const Option& option, const char* help) override;
  std::optional<size_t> list_size(const std::string& key, size_t now, const char* help) override;
  void unmet(const std::string& key, const char* what) override;

 private:
  bool gives(const std::string& key) const;  // it, or something inside it
  void refuse_nameless(const std::string& key, const Option& option) const;
  std::string problem(const std::string& key) const;

  const Values& source_;
  const Keys reserved_;
  std::map<std::string, std::string> known_;  // key to what it accepts
  std::set<std::string> used_;                // keys of the source that somebody has read
};

class Dump : public Visitor {
 public:
  Values values;

 protected:
  void option(const std::string& key, const Option& option, const char* help) override;
  std::optional<size_t> list_size(const std::string& key, size_t now, const char* help) override;
};

// Nested YAML in the order of the visit, with the origin of each value behind it. It loads again to
// the same values.
class Print : public Visitor {
 public:
  explicit Print(const Values& origins) : origins_(origins) {}
  std::string text() const;

 protected:
  void option(const std::string& key, const Option& option, const char* help) override;
  std::optional<size_t> list_size(const std::string& key, size_t now, const char* help) override;

 private:
  const Values& origins_;
  std::vector<std::pair<std::string, std::string>> lines_;  // key, and its value in YAML
};

// What each option is for, in the order of the visit; an empty list shows what an item would take.
class Describe : public Visitor {
 public:
  struct Line {
    std::string key, text;  // "width", "64 (a whole number >= 1): channels of the first stage"
  };
  std::vector<Line> lines;

 protected:
  void option(const std::string& key, const Option& option, const char* help) override;
  std::optional<size_t> list_size(const std::string& key, size_t now, const char* help) override;
};

template <class Options> Values dump(Options options) {
  Dump visitor;
  visit(visitor, options);
  return visitor.values;
}

template <class Options>
Options load(Options options, const Values& source, const Keys& reserved = {}) {
  Load visitor(source, reserved);
  visit(visitor, options);
  visitor.refuse_unknown();
  return options;
}

// Where each value of `now` comes from: the source just read, else as `before` if it is unchanged.
void note_origins(Values& now, const Values& before, const Values& source);

// Reads one source more, onto the options and where each of their values comes from.
template <class Options>
void load_onto(Options& options, Values& origins, const Values& source, const Keys& reserved = {}) {
  options = load(options, source, reserved);
  Values now = dump(options);
  note_origins(now, origins, source);
  origins = std::move(now);
}

template <class Options> std::string print(Options options, const Values& origins) {
  Print visitor(origins);
  visit(visitor, options);
  return visitor.text();
}

}  // namespace bellows
