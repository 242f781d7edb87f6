#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>
#include <algorithm>
#include <sstream>
#include <utility>
#include "core/base/file.h"
#include "core/base/utf8.h"
#include "core/base/words.h"
#include "core/config/config.h"
#include "core/config/hint.h"

namespace bellows {

// yaml-cpp counts lines and columns from 0.
static std::string place(const std::string& name, const YAML::Mark& mark) {
  return cat(name, ":", mark.line + 1, ":", mark.column + 1);
}

// Returns what is wrong with a key, or "". A key is words joined by dots. No word may be an item's
// index: `layers.1: x` leaves the other items undefined, so lists are written whole.
static std::string fault_of_key(const std::string& key) {
  if (key.size() > kYamlKeyLength) return cat("a key of more than ", kYamlKeyLength, " letters");
  std::istringstream words(key + ".");
  for (std::string word; std::getline(words, word, '.');) {
    const bool plain = std::ranges::all_of(
        word, [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; });
    if (word.empty() || !plain) return "a key is made of letters, digits, _ and -";
    if (word.find_first_not_of("0123456789") == std::string::npos)
      return cat("'", key, "': items are not set one by one; write the whole list");
  }
  return "";
}

namespace {

// Turns the parser's events into flat values. Limits are checked while the parser runs: if a tree
// of nodes were built first, an alias bomb of 414 bytes would cost 20 million visits.
class Flatten : public YAML::EventHandler {
 public:
  // Reads a whole file if `root` is empty, else the value of that key.
  Flatten(std::string name, std::string root) : name_(std::move(name)), root_(std::move(root)) {}

  Values values;

  void OnDocumentStart(const YAML::Mark& mark) override {
    refuse_if(++documents_ > 1, mark, "a second document, or text behind the end of the first");
  }
  void OnDocumentEnd() override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "aliases (*) are not allowed; write the value out");
  }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    count(mark, "", anchor);
    refuse_if(expects_key(), mark, "a key without a name");
    refuse_if(is_file_root(), YAML::Mark(), "an empty file; write  key: value");
    const std::string path = next_path();
    const auto key = keys_.find(path);
    refuse(key == keys_.end() ? mark : key->second,
           cat("'", path, "' has no value; give it one or leave it out"));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    count(mark, tag, anchor);
    if (expects_key()) return read_key(mark, text);
    refuse_if(is_file_root(), mark, "a config is a map; write  key: value");
    store(next_path(), text, mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    count(mark, tag, anchor);
    refuse_if(is_file_root(), mark, "a config is a map; write  key: value");
    open(mark, true);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    count(mark, tag, anchor);
    open(mark, false);
  }
  void OnSequenceEnd() override {
    const Level list = close();
    if (list.size == 0) store(list.path, "[]", list.mark);
  }
  void OnMapEnd() override {
    const Level map = close();
    refuse_if(map.size == 0, map.mark, cat("'", map.path, "' is an empty map; leave it out"));
  }

 private:
  struct Level {  // a list or map that is being read
    std::string path;
    YAML::Mark mark;
    bool list;
    size_t size = 0;
    std::string key{};  // the current key of a map, until its value is read
  };

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& why) const {
    fail(Exit::usage, root_.empty() ? place(name_, mark) : name_, ": ", why);
  }
  void refuse_if(bool wrong, const YAML::Mark& mark, const std::string& why) const {
    if (wrong) refuse(mark, why);
  }
  void count(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    refuse_if(++nodes_ > kYamlNodes, mark, cat("more than ", kYamlNodes, " keys and values"));
    refuse_if(anchor != 0, mark, "anchors (&) are not allowed; write the value out");
    const bool plain_or_quoted = tag.empty() || tag == "?" || tag == "!";
    refuse_if(!plain_or_quoted, mark, "tags (!) are not allowed; write the value alone");
  }
  bool expects_key() const {
    return !open_.empty() && !open_.back().list && open_.back().key.empty();
  }
  bool is_file_root() const { return open_.empty() && root_.empty(); }

  void read_key(const YAML::Mark& mark, const std::string& key) {
    refuse_if(key == "<<", mark, "merge keys (<<) are not allowed; write  base: other.yaml");
    const std::string fault = fault_of_key(key);
    refuse_if(!fault.empty(), mark, fault);
    Level& map = open_.back();
    const std::string path = map.path.empty() ? key : map.path + "." + key;
    const auto [first, fresh] = keys_.emplace(path, mark);
    refuse_if(!fresh, mark,
              cat("duplicate key '", path, "', first given in line ", first->second.line + 1));
    map.key = key;
    ++map.size;
  }
  // Returns the path of the value that comes next.
  std::string next_path() {
    if (open_.empty()) return root_;
    Level& in = open_.back();
    const std::string word = in.list ? std::to_string(in.size++) : std::exchange(in.key, "");
    return in.path.empty() ? word : in.path + "." + word;
  }
  void open(const YAML::Mark& mark, bool list) {
    refuse_if(expects_key(), mark, "a list or a map cannot be a key; write  key: value");
    refuse_if(open_.size() == kYamlDepth, mark, cat("nested deeper than ", kYamlDepth));
    const std::string path = next_path();
    open_.push_back({path, mark, list});
  }
  Level close() {
    const Level level = open_.back();
    open_.pop_back();
    return level;
  }
  // The origin is the place of the key, if there is one, also for an unknown key.
  void store(const std::string& path, const std::string& text, const YAML::Mark& mark) {
    const auto key = keys_.find(path);
    const YAML::Mark& at = key == keys_.end() ? mark : key->second;
    values[path] = {text, root_.empty() ? place(name_, at) : kCommandLine};
  }

  std::string name_, root_;
  std::vector<Level> open_;
  std::map<std::string, YAML::Mark> keys_;  // paths read so far, and where they are
  size_t nodes_ = 0, documents_ = 0;
};

}  // namespace

// The end marker makes yaml-cpp report unclosed quotes, which it would silently close at the end of
// a file. An open bracket makes yaml-cpp invent keys, so if Flatten refuses something, a syntax
// error takes precedence.
static Values flatten(std::string text, const std::string& name, const std::string& root) {
  text += text.ends_with('\n') ? "...\n" : "\n...\n";
  Flatten handler(name, root);
  std::istringstream in(text);
  YAML::Parser parser(in);
  try {
    while (parser.HandleNextDocument(handler)) {
    }
  } catch (const Error&) {
    try {
      YAML::LoadAll(text);
    } catch (const YAML::DeepRecursion&) {  // our own limit has refused it already
    }
    throw;
  }
  return handler.values;
}

static std::string reason(const YAML::Exception& error) {
  const bool open_quotes = error.msg == "illegal document indicator in scalar";
  return open_quotes ? "quotes that are not closed before this line" : error.msg;
}

static std::string place(const std::string& name, const std::string& text, size_t at) {
  const auto line = std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n') + 1;
  const size_t start = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;  // npos + 1 is 0
  return cat(name, ":", line, ":", at - start + 1);
}

// Refuses binary bytes, which yaml-cpp takes as text, and tabs before a key, which it overlooks.
static void check_text(const std::string& text, const std::string& name) {
  const size_t binary = find_non_text(text);
  CHECK(binary == std::string::npos, place(name, text, binary),
        ": this byte is not text; save the file as UTF-8");
  for (size_t line = 0; line != std::string::npos;) {
    const size_t first = text.find_first_not_of(" \n", line);
    CHECK(first == std::string::npos || text[first] != '\t', place(name, text, first),
          ": a tab; indent with spaces");
    line = text.find('\n', first);
  }
}

Values parse_yaml(const std::string& text, const std::string& name) {
  CHECK(text.size() <= kYamlBytes, name, ":1:1: larger than ", kYamlBytes / 1024, " KiB");
  check_text(text, name);
  try {
    return flatten(text, name, "");
  } catch (const YAML::Exception& error) {
    fail(Exit::usage, place(name, error.mark), ": ", reason(error));
  }
}

Values read_yaml(const std::string& path) {
  const bool there = kind_of(path, Exit::usage) != Kind::nothing;
  const bool shipped = !there && kind_of("configs/" + path, Exit::usage) == Kind::file;
  CHECK(there, path, ": there is no such config file",
        shipped ? "; write  --config " + quoted("configs/" + path) : "");
  return parse_yaml(read_file(path, kYamlBytes, Exit::usage), printable(path));
}

// Returns true if a value of the command line is YAML: a list, a map, or text in quotes.
static bool is_yaml(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\n"), last = text.find_last_not_of(" \t\n");
  if (first == std::string::npos || text[first] == '[' || text[first] == '{') return true;
  return first < last && text[first] == text[last] && (text[first] == '"' || text[first] == '\'');
}

Values parse_override(const std::string& assignment) {
  const std::string where = "command line: " + on_one_line(assignment);
  const size_t equals = assignment.find('=');
  const bool file = assignment.ends_with(".yaml") || assignment.ends_with(".yml");
  CHECK(equals != std::string::npos, where, " is not key=value; write  ",
        file ? "--config " + quoted(assignment) : "optimizer.lr=0.1");
  const std::string key = assignment.substr(0, equals), text = assignment.substr(equals + 1);
  const std::string fault = fault_of_key(key), forms = cat("write  ", key, "=VALUE, '", key,
                                                           "=[A, B]' or '", key, "={KEY: VALUE}'");
  CHECK(fault.empty(), where, ": ", fault);
  CHECK(find_non_text(text) == std::string::npos, where, ": no text; ", forms);
  if (!is_yaml(text)) return {{key, {text, kCommandLine}}};
  try {
    const Values values = flatten(text, where, key);
    flatten("[" + text + "]", where, key);  // a comment, which would be dropped, hides the bracket
    return values;
  } catch (const YAML::Exception& error) {
    fail(Exit::usage, where, ": ", reason(error), "; ", forms);
  }
}

}  // namespace bellows
