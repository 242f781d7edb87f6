// trainer completion SHELL: prints a script that completes command lines in bash or zsh. The script
// asks the program itself, `trainer completion words LINE`, so it knows all that is registered.
#include <algorithm>
#include <map>
#include <sstream>
#include "core/base/output.h"
#include "core/base/words.h"
#include "plan/toggle.h"
#include "trainer/verbs/tables.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

static constexpr const char* kBash =
#include <completion.bash.inc>
    ;
static constexpr const char* kZsh =
#include <completion.zsh.inc>
    ;

// Returns the values of a toggle ("toggles.amp"), or of an option that takes one of a few values.
static Names list_values(const std::string& key) {
  if (key.starts_with("toggles."))
    if (const Toggle* const toggle = find_toggle(key.substr(8))) return toggle->values;
  Listing all;
  Plan plan = make_config({}).plan;
  visit(all, plan);
  Names values;
  for (const Listing::Line& line : all.lines) {
    if (line.key != key && line.key != key + ".name") continue;
    std::istringstream words(line.accepts);
    for (std::string word; words >> word;)
      if (word != "or") values.push_back(word);
    if (line.accepts.find(' ') == line.accepts.find(" or ")) return values;
  }
  return {};  // a number or a text
}

// Returns "optimizer.lr=", "toggles.amp=", "model=", ... An option that a toggle sets has no key.
static Names keys() {
  Names keys;
  for (const auto& [key, value] : dump(make_config({}).plan)) {
    if (option_owners().contains(key)) continue;
    keys.push_back(key + "=");
    if (key.ends_with(".name")) keys.push_back(key.substr(0, key.size() - 5) + "=");
  }
  for (const Toggle& toggle : toggles()) keys.push_back(cat("toggles.", toggle.name, "="));
  return keys;
}

static Names names_in(const std::string& list) {
  Names names;
  for (const Table& table : tables()) {
    if (list == "lists") names.emplace_back(table.name);
    for (const TableRow& row : table.rows())
      if (list == "all" || list == table.name) names.push_back(row[0]);
  }
  return names;
}

// Returns what may follow `words`, the first of which is a verb, and begin like `last`.
static Names candidates(const Arguments& words, const std::string& last) {
  static const std::map<std::string, const char*> lists = {
      {"", "verbs"},     {"help", "verbs"},       {"bench", "benches"}, {"explain", "all"},
      {"list", "lists"}, {"--toggle", "toggles"}, {"--config", ""},     {"-c", ""}};
  const std::string before = words.empty() ? "" : words.back();
  const size_t equals = last.find('=');
  const auto list = lists.find(before);
  if (list != lists.end() && equals == last.npos) return names_in(list->second);
  const auto toggle = std::ranges::find(words, "--toggle");
  if (before == "--value" && words.end() - toggle > 1) return list_values("toggles." + toggle[1]);
  if (equals == last.npos) return keys();
  Names values = list_values(last.substr(0, equals));
  for (std::string& value : values) value.insert(0, last.substr(0, equals + 1));
  return values;
}

// Prints the words that may complete the last one of `line`, one per line. After "--" follows the
// command line that each rank of `launch` runs.
static void print_words(const std::string& line) {
  std::istringstream text(line);
  Arguments words;
  for (std::string word; text >> word;) words.push_back(word);
  const bool begun = !line.empty() && line.back() != ' ';
  const std::string last = begun ? words.back() : "";
  if (begun) words.pop_back();
  const auto dashes = std::ranges::find(words, "--");
  words.erase(words.begin(), dashes == words.end() ? words.begin() + !words.empty() : dashes + 1);
  if (last.starts_with("-")) {
    const bool bench = words.size() > 1 && benches().contains(words[1]) && words[0] == "bench";
    const bool named = !words.empty() && verbs().contains(words[0]);
    const Verb& verb = bench ? benches().at(words[1]) : verbs().at(named ? words[0] : "train");
    run_verb(verb, {CommandLine::kComplete, last});
    return;
  }
  for (const std::string& candidate : candidates(words, last))
    if (candidate.starts_with(last)) say(candidate);
}

static int run_completion(CommandLine& line, const Arguments& args) {
  std::string shell, typed;
  line.add_option("shell", shell, "bash or zsh; `words` prints what completes a line")
      .required()
      .one_of({"bash", "zsh", "words"});
  line.add_option("line", typed, "of `words`: the line up to the cursor");
  line.add_note("Turn it on with  source <(trainer completion bash)  in ~/.bashrc.");
  if (!line.read(args)) return 0;
  if (shell == "words") return print_words(typed), 0;
  say_part(shell == "bash" ? kBash : kZsh);
  return 0;
}

static const AddVerb completion_verb({"completion",
                                      "prints a script by which bash or zsh completes commands",
                                      "trainer completion bash", run_completion, "use"});

}  // namespace bellows
