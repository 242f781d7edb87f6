// trainer completion SHELL: prints a script that completes command lines in bash or zsh. The script
// asks the program itself, `trainer completion words LINE`, so it knows all that is registered.
#include <algorithm>
#include <sstream>
#include "core/base/output.h"
#include "core/base/words.h"
#include "plan/toggle.h"
#include "trainer/verbs/tables.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

// Bash splits a word at "=" and replaces the part after it, so the part before it is taken off.
static constexpr const char* kBash = R"(_trainer() {
  local line=${COMP_LINE:0:COMP_POINT}
  local word=${line##* }
  mapfile -t COMPREPLY < <("${COMP_WORDS[0]}" completion words "$line" 2>/dev/null)
  if [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
  if [[ $word == *=* && $COMP_WORDBREAKS == *=* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"${word%%=*}="}")
  fi
}
complete -o default -F _trainer trainer
)";
static constexpr const char* kZsh = R"(_trainer() {
  local -a found=("${(@f)$("${words[1]}" completion words "$LBUFFER" 2>/dev/null)}")
  compadd -Q -S '' -- ${(M)found:#*=}
  compadd -Q -- ${found:#*=}
  _files
}
compdef _trainer trainer
)";

// Returns "toggles.amp=off", ... for "toggles.amp", and the names or truth values of an option.
static Names values_of(const std::string& key) {
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
  for (const Table& table : tables())
    for (const TableRow& row : table.rows())
      if (list.empty() || list == table.name) names.push_back(row[0]);
  return names;
}

static Names tables_listed() {
  Names names;
  for (const Table& table : tables()) names.emplace_back(table.name);
  return names;
}

// Returns what may stand in the place of `last`, after `words`, the first of which is a verb.
static Names candidates(const Arguments& words, const std::string& last) {
  const std::string verb = words.empty() ? "" : words[0],
                    before = words.empty() ? "" : words.back();
  if (words.empty() && !last.starts_with("-") && last.find('=') == last.npos)
    return names_in("verbs");
  if (before == "--config" || before == "-c") return {};  // the shell completes files
  if (before == "--toggle") return names_in("toggles");
  const auto toggle = std::ranges::find(words, "--toggle");
  if (before == "--value" && words.end() - toggle > 1) return values_of("toggles." + toggle[1]);
  if (words.size() == 1 && verb == "explain") return names_in("");
  if (words.size() == 1 && verb == "list") return tables_listed();
  if (words.size() == 1 && verb == "help") return names_in("verbs");
  if (words.size() == 1 && verb == "bench") return names_in("benches");
  const size_t equals = last.find('=');
  if (equals == last.npos) return keys();
  Names values = values_of(last.substr(0, equals));
  for (std::string& value : values) value.insert(0, last.substr(0, equals + 1));
  return values;
}

// Prints the words that may complete the last one of `line`, one per line. After "--" stands the
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
  if (shell == "words")
    print_words(typed);
  else
    say_part(shell == "bash" ? kBash : kZsh);
  return 0;
}

static const AddVerb completion_verb({"completion",
                                      "prints a script by which bash or zsh completes commands",
                                      "trainer completion bash", run_completion, "use"});

}  // namespace bellows
