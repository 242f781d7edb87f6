#include "core/config/hint.h"
#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <utility>
#include "core/base/check.h"
#include "core/config/choice.h"
#include "core/config/removed.h"

namespace bellows {

static std::string last_word(const std::string& key) { return key.substr(key.rfind('.') + 1); }

// Returns the Levenshtein distance, computed row by row.
static size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  return *std::ranges::min_element(known, {}, [&](const std::string& key) {
    const bool begun = word.size() >= 3 && key.starts_with(word);
    const size_t whole = begun ? 0 : edit_distance(word, key);
    return std::pair(std::min(whole, 1 + edit_distance(last_word(word), last_word(key))), whole);
  });
}

bool is_like(const std::string& word, const std::string& key) {
  return edit_distance(last_word(word), last_word(key)) <= (last_word(word).size() + 1) / 2;
}

// Returns the option that is called `name` in other frameworks, preferably one whose key begins
// with `place`; "" if there is none.
static std::string called_here(const std::string& name, const std::string& place,
                               const std::map<std::string, Names>& known) {
  std::string first;
  for (const auto& [key, elsewhere] : known) {
    if (!std::ranges::count(elsewhere, name)) continue;
    if (key == place + last_word(key)) return key;
    if (first.empty()) first = key;
  }
  return first;
}

std::string hint(const std::string& of, const std::map<std::string, Names>& known) {
  const bool element = last_word(of).find_first_not_of("0123456789") == of.npos;
  const std::string key = element ? of.substr(0, of.rfind('.')) : of;
  const std::string place = key.substr(0, key.size() - last_word(key).size());
  for (const std::string& reason : {removal(key), remark(last_word(key))})
    if (!reason.empty()) return reason;
  const std::string ours = called_here(last_word(key), place, known);
  if (!ours.empty()) return "it is called '" + ours + "' here";
  Names keys;
  for (const auto& [name, elsewhere] : known) keys.push_back(name);
  const auto inside = [&](const std::string& other) { return other.starts_with(key + "."); };
  if (element && std::ranges::any_of(keys, inside))
    return "because " + key + " is a map; trainer --print-config  prints its keys";
  const std::string near = nearest(key, keys);
  if (!is_like(key, near))
    return "and no known key is like it; trainer --print-config  prints all keys";
  return "the nearest known key is '" + near + "'";
}

// Returns true if only some YAML readers take the text as a number: `010`, `+5`, `.5`, `0x10`,
// `1_000`, and `1e3` as an integer.
static bool ambiguous_number(const std::string& text, bool whole) {
  if (text.find_first_not_of("0123456789abcdefxABCDEFX_+-.") != std::string::npos) return false;
  const size_t first = text.find_first_not_of('-');
  const size_t digit = text.find_first_of("0123456789");
  if (digit == std::string::npos) return false;
  const bool zero_first = text[first] == '0' && first + 1 < text.size() &&
                          std::isdigit(static_cast<unsigned char>(text[first + 1]));
  return zero_first || text[first] == '+' || text[first] == '.' ||
         text.find_first_of(whole ? "_xXeE" : "_xX") != std::string::npos;
}

// Returns the advice to write the item of "csv or npy or text" that other frameworks call `text`,
// or that is spelled like it; "" if there is none.
static std::string nearest_of(const std::string& text, const std::string& accepts) {
  std::istringstream words(accepts);
  std::vector<std::string> names{std::istream_iterator<std::string>(words), {}};
  std::erase(names, "or");
  for (const auto& [ours, theirs] : entry_names())
    if (std::ranges::count(names, ours) && std::ranges::count(theirs, text))
      return cat("; the nearest one is '", ours, "'");
  const std::string near = names.size() > 3 ? nearest(text, names) : "";
  return !near.empty() && is_like(text, near) ? cat("; the nearest one is '", near, "'") : "";
}

std::string remedy(std::string text, const std::string& accepts) {
  static const std::set<std::string> yes = {"yes", "y", "on", "1", "true"};
  static const std::set<std::string> no = {"no", "n", "off", "0", "false"};
  const bool whole = accepts.find("a whole number") != std::string::npos;
  if (whole || accepts.starts_with("a number"))
    return ambiguous_number(text, whole) ? "; write it in plain decimal digits" : "";
  if (const std::string near = nearest_of(text, accepts); !near.empty()) return near;
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  const bool truth = accepts == "false or true";
  if (!truth && accepts != "off or on") {
    const std::string gone = removal(text);
    return gone.empty() ? "" : "; " + gone;
  }
  if (yes.contains(text)) return truth ? "; write true" : "; write on";
  return !no.contains(text) ? "" : truth ? "; write false" : "; write off";
}

std::string on_one_line(const std::string& text) {
  std::string line = text.size() > 60 ? text.substr(0, 60) + "..." : text;
  std::ranges::replace_if(
      line, [](unsigned char c) { return c < ' '; }, ' ');
  return "'" + line + "'";
}

std::string remark(const std::string& name) {
  static const std::string horizon =
      "a schedule spans the whole run; set train.epochs or train.max_iters";
  static const std::string splits =
      "elsewhere it multiplies the samples of an update, here it splits data.batch_size; multiply "
      "that too";
  static const std::map<std::string, std::string> remarks = {
      {"T_max", horizon},
      {"accum_iter", splits},
      {"accumulate_grad_batches", splits},
      {"betas", "it is two keys of adam and adamw here, 'beta1' and 'beta2'"},
      {"gradient_accumulation_steps", splits},
      {"ignore_index", "every label counts; leave those samples out of the data set"},
      {"total_steps", horizon},
      {"update_freq", splits},
  };
  const auto found = remarks.find(name);
  return found == remarks.end() ? "" : found->second;
}

}  // namespace bellows
