#include "core/config/values.h"
#include <fmt/format.h>
#include <algorithm>
#include <sstream>
#include "core/base/utf8.h"
#include "core/base/words.h"
#include "core/config/hint.h"

namespace bellows {

// Finds the value of a key. "model: lenet" is short for "model: {name: lenet}", also in the items
// of a list: "layers: [flatten, {name: linear, out: 10}]".
static Values::const_iterator find_value(const Values& values, const std::string& key) {
  const auto found = values.find(key);
  const bool has_short = found == values.end() && key.ends_with(".name");
  return has_short ? values.find(key.substr(0, key.rfind('.'))) : found;
}

static std::string at(const Value& value) {
  return value.origin == "default" ? "" : value.origin + ": ";
}

static std::vector<std::string> split(const std::string& key) {
  std::vector<std::string> words;
  std::istringstream in(key);
  for (std::string word; std::getline(in, word, '.');) words.push_back(word);
  return words;
}

static bool is_item(const std::string& word) {
  return word.find_first_not_of("0123456789") == std::string::npos;
}

// Returns "key: text" in the form that the source of `given` takes: one word on a command line.
// Items of a list are not set one by one, so an option of an item becomes a line of that item.
static std::string advice(const Value& given, const std::string& key, const std::string& text) {
  const std::vector<std::string> words = split(key);
  const auto in_item = std::ranges::find_if(words.rbegin(), words.rend(), is_item).base();
  if (in_item != words.begin())
    return fmt::format("{}: {}", fmt::join(in_item, words.end(), "."), text);
  return given.origin == kCommandLine ? quoted(cat(key, "=", text)) : cat(key, ": ", text);
}

void Load::option(const std::string& key, const Option& option, const char*) {
  known_[key] = option.accepts;
  const auto given = find_value(source_, key);
  if (given == source_.end()) return refuse_nameless(key, option);
  used_.insert(given->first);
  const Value& value = given->second;
  CHECK(value.text != "[]", at(value), key, ": an empty list is not ", option.accepts);
  CHECK(option.read(value.text), at(value), key, ": ", on_one_line(value.text), " is not ",
        option.accepts, remedy(value.text, option.accepts));
}

// Refuses a list item without a name: a new item of a list of entries has none chosen.
void Load::refuse_nameless(const std::string& key, const Option& option) const {
  if (!key.ends_with(".name") || !option.text.empty() || option.accepts == "text") return;
  const std::string item = key.substr(0, key.rfind('.') + 1);
  const auto inside = source_.lower_bound(item);
  if (inside == source_.end() || !inside->first.starts_with(item)) return;
  fail(Exit::usage, at(inside->second), item, "name is missing; write  name: ", option.accepts);
}

bool Load::gives(const std::string& key) const {
  const auto inside = source_.lower_bound(key + ".");
  return source_.contains(key) || (inside != source_.end() && inside->first.starts_with(key + "."));
}

std::optional<size_t> Load::list_size(const std::string& key, size_t, const char*) {
  known_[key] = "a list";
  if (const auto given = source_.find(key); given != source_.end()) {
    const Value& value = given->second;
    CHECK(value.text == "[]", at(value), key, ": ", on_one_line(value.text),
          " is not a list; write  ", advice(value, key, cat("[", yaml(value.text), "]")));
    used_.insert(key);
    return 0;
  }
  size_t items = 0;
  while (gives(key + "." + std::to_string(items))) ++items;
  return items ? std::optional(items) : std::nullopt;
}

void Load::report_violation(const std::string& key, const char* what) {
  const auto given = source_.lower_bound(key);  // the key, or the first item of its list
  const bool here =
      given != source_.end() && (given->first == key || given->first.starts_with(key + "."));
  fail(Exit::usage, here ? at(given->second) : "", key, " ", what);
}

// Returns why no option has read the key: it is a value where a map belongs, a map or list where a
// value belongs, or unknown.
std::string Load::problem(const std::string& key) const {
  const auto inside = [&](const std::string& outer) {
    const auto first = known_.lower_bound(outer + ".");
    return first != known_.end() && first->first.starts_with(outer + ".") ? first : known_.end();
  };
  if (auto option = inside(key); option != known_.end()) {
    std::string list;
    for (; option != known_.end() && option->first.starts_with(key + "."); ++option)
      if (!reserved_.contains(option->first))
        list += (list.empty() ? "" : ", ") + option->first.substr(key.size() + 1);
    const Value& value = source_.at(key);
    const std::string is_no_map = cat(key, ": ", on_one_line(value.text), " is not a map; ");
    if (list.empty())
      return cat(is_no_map, "its options are set by toggles; trainer explain ", key);
    const std::string map = cat("{", list.substr(0, list.find(',')), ": ...}");
    return cat(is_no_map, "write  ", advice(value, key, map));
  }
  for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
    const std::string outer = key.substr(0, dot);
    const auto option = known_.find(outer);
    if (option != known_.end() && inside(outer) == known_.end())
      return cat(outer, ": a map or a list is not ", option->second);
  }
  if (known_.empty()) return cat("unknown key '", key, "'; nothing can be set here");
  std::map<std::string, Names> known;
  for (const auto& [name, accepts] : known_)
    if (!reserved_.contains(name)) known[name] = marks().at(name).elsewhere;
  return cat("unknown key '", key, "', ", hint(key, known));
}

void Load::refuse_unknown() const {
  for (const auto& [key, value] : source_) CHECK(used_.contains(key), at(value), problem(key));
}

void note_origins(Values& now, const Values& before, const Values& source) {
  for (auto& [key, value] : now) {
    const auto given = find_value(source, key);
    const auto old = before.find(key);
    if (given != source.end()) {
      value.origin = given->second.origin;
    } else if (old != before.end() && old->second.text == value.text) {
      value.origin = old->second.origin;
    }
  }
}

void Listing::option(const std::string& key, const Option& option, const char* help) {
  lines.push_back({key, option.text, option.accepts, help});
}

std::optional<size_t> Listing::list_size(const std::string& key, size_t now, const char* help) {
  if (now > 0) return {};
  lines.push_back({key, "[]", kList, help});
  return items_ ? std::optional<size_t>(1) : std::nullopt;
}

std::string Listing::Line::described() const {
  return cat(text, text.empty() ? "(" : " (", accepts, "): ", help);
}

Values values_of(const Listing& listing) {
  Values values;
  for (const Listing::Line& line : listing.lines)
    INVARIANT(values.emplace(line.key, Value{line.text}).second, line.key,
              " is the key of two options");
  return values;
}

std::vector<Difference> differences(const Values& a, const Values& b, const std::string& missing) {
  Values either = a;
  either.insert(b.begin(), b.end());
  const auto text = [&](const Values& values, const std::string& key) {
    const auto at = values.find(key);
    return at == values.end() ? missing : at->second.text;
  };
  std::vector<Difference> found;
  for (const auto& [key, value] : either)
    if (text(a, key) != text(b, key)) found.push_back({key, text(a, key), text(b, key)});
  return found;
}

std::string yaml(const std::string& text) {
  const bool plain = std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '.' || c == '/' || c == '+';
  });
  static const std::set<std::string> not_text = {"", "-", "null", "Null", "NULL"};
  if (plain && !not_text.contains(text)) return text;
  std::string quoted = "\"";
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(std::string_view(text).substr(at));
    const size_t length = std::max<size_t>(c.bytes, 1);
    if (c.code_point == '"' || c.code_point == '\\') quoted += '\\';
    quoted += c.printable ? text.substr(at, length)
                          : fmt::format("\\u{:04x}", c.bytes ? c.code_point : 0xfffd);
    at += length;
  }
  return quoted + "\"";
}

// Writes the parent keys of each line that the previous line has not already written. A word of
// digits is a list item, whose first key follows the dash.
std::string to_yaml(const Listing& listing, const Values& origins) {
  const std::vector<Listing::Line>& lines = listing.lines;
  std::string text;
  std::vector<std::string> open;
  for (size_t n = 0; n < lines.size(); ++n) {
    const std::string& key = lines[n].key;
    if (n + 1 < lines.size() && lines[n + 1].key.starts_with(key + ".")) continue;
    const std::vector<std::string> words = split(key);
    const size_t known = std::ranges::mismatch(words, open).in1 - words.begin();
    std::string line(2 * known, ' ');
    for (size_t i = known; i < words.size(); ++i) {
      const bool item = is_item(words[i]);
      const bool last = i + 1 == words.size();
      line += item ? "- " : words[i] + ":";
      if (!item && !last) line.append("\n").append(2 * (i + 1), ' ');
    }
    const auto from = origins.find(key);
    line += line.ends_with(' ') ? "" : " ";
    line += lines[n].empty_list() ? lines[n].text : yaml(lines[n].text);
    const size_t start = line.rfind('\n') + 1;
    text += line.substr(0, start) + fmt::format("{:<38}", line.substr(start)) + "  # " +
            (from == origins.end() ? "default" : from->second.origin) + "\n";
    open = words;
  }
  return text;
}

}  // namespace bellows
