// Every option of the plan, and of every entry that a config can name, with values that it must
// refuse: of a wrong type, beyond its bounds, hostile to a terminal, under a misspelt key. Whatever
// a message says to write is accepted.
#include <fmt/format.h>
#include <cmath>
#include <cstdio>
#include <regex>
#include "core/base/utf8.h"
#include "core/config/config.h"
#include "core/config/hint.h"
#include "core/config/yaml.h"
#include "plan/toggle.h"
#include "tests/matchers.h"
#include "tests/refusal.h"
#include "trainer/run/run.h"
#include "trainer/verbs/tables.h"

using namespace bellows;

namespace {

// Escape, bell, DEL, a C1 control, a change of text direction, a forged line.
const std::string kHostile = "x\x1b[2J\x07\x7f\xc2\x9b\xe2\x80\xae\nforged: done\r../x";

struct Setting {
  Values names;  // of the entries to which the option belongs
  Listing::Line line;
  bool is_unnamed;  // its entry of a list has no name yet

  std::string load_with(const std::string& key, const std::string& text) const {
    Values values = names;
    values[key] = {text, "here"};
    const Refusal refusal = refused([&] { load(Plan{}, values); });
    EXPECT_TRUE(refusal.exit == Exit::usage || refusal.message == "no error") << refusal.message;
    EXPECT_EQ(refusal.message.find_first_of("\x1b\n\r"), std::string::npos) << key;
    return refusal.message;
  }
  // Expects a message with the place, the key and what the option accepts.
  void expect_refused(const std::string& text) const {
    EXPECT_THAT(load_with(line.key, text), AllOf(StartsWith(cat("here: ", line.key, ": ")),
                                                 HasSubstr(" is not " + line.accepts)))
        << text;
  }
  // A key beside an entry of a list, or beside its name, is a mistake in the list.
  bool is_an_entry() const {
    return std::regex_search(line.key, std::regex("\\.[0-9]+(\\.name)?$"));
  }
  bool is_whole() const { return line.accepts.find("a whole number") != std::string::npos; }
  bool is_number() const { return is_whole() || line.accepts.starts_with("a number"); }
};

Names split_at(const std::string& text, const std::string& mark) {
  Names parts = {""};
  for (size_t at = 0; at < text.size();)
    if (text.compare(at, mark.size(), mark) == 0)
      parts.emplace_back(), at += mark.size();
    else
      parts.back() += text[at++];
  return parts;
}

// Says whether the option belongs to an entry of a list that has no name yet.
bool is_unnamed(const Listing::Line& line, const Values& names) {
  static const std::regex entry("\\.[0-9]+\\.");
  for (std::sregex_iterator at(line.key.begin(), line.key.end(), entry), end; at != end; ++at) {
    const std::string name = line.key.substr(0, at->position() + at->length()) + "name";
    if (name != line.key && !names.contains(name)) return true;
  }
  return false;
}

// Options of Plan{}, and below each name that one of them takes, those that the name brings.
std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  std::set<std::string> seen;
  std::vector<Values> bases = {{}};
  for (size_t i = 0; i < bases.size(); ++i) {
    const Values base = bases[i];
    Plan plan;
    if (refusal([&] { plan = load(plan, base); }) != "no error") continue;
    Listing listing(true);
    visit(listing, plan);
    for (const Listing::Line& line : listing.lines) {
      if (line.empty_list()) continue;
      const bool unnamed = is_unnamed(line, base);
      if (!seen.insert(cat(line.key, line.accepts, line.help, unnamed)).second) continue;
      settings.push_back({base, line, unnamed});
      const bool names = !settings.back().is_number() && line.accepts != "text";
      const bool deep = std::ranges::count(line.key, '.') > 3;  // lists of layers in lists
      if (!names || deep) continue;
      for (const std::string& name : split_at(line.accepts, " or ")) {
        bases.push_back(base);
        bases.back()[line.key] = {name};
      }
    }
  }
  return settings;
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = all_settings();
  return all;
}

// Without those whose message could only ask for a name.
std::vector<Setting> named() {
  std::vector<Setting> named = settings();
  std::erase_if(named, [](const Setting& s) { return s.is_unnamed; });
  return named;
}

}  // namespace

TEST(Options, AreFoundForEveryEntryAndExplainThemselves) {
  std::set<std::string> helps;
  for (const auto& [names, line, unnamed] : settings()) {
    EXPECT_FALSE(line.help.empty()) << line.key;
    EXPECT_FALSE(line.accepts.empty()) << line.key;
    EXPECT_EQ(line.key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_."),
              std::string::npos)
        << line.key;
    helps.insert(line.help);
  }
  for (const Table& table : tables()) {
    if (!table.visit) continue;
    for (const TableRow& row : table.rows()) {
      Listing listing(true);
      table.visit(listing, row[0]);
      for (const Listing::Line& line : listing.lines)
        EXPECT_TRUE(line.empty_list() || helps.contains(line.help)) << row[0] << " " << line.key;
    }
  }
}

TEST(Options, RefuseWhatIsNotOfTheirType) {
  for (const Setting& s : named()) {
    Names wrong = {"many", "", "[]", kHostile};
    if (s.is_number()) wrong = {"nan", ".inf", "1e400", "0x10", "010", "+5", "1_000", " 5"};
    if (s.is_whole()) wrong.insert(wrong.end(), {"1.5", "1e3", "99999999999999999999"});
    if (s.line.accepts == "text") wrong = {"[]"};
    for (const std::string& text : wrong) s.expect_refused(text);
    if (s.is_an_entry()) continue;
    EXPECT_EQ(s.load_with(s.line.key + ".x", "1"),
              cat("here: ", s.line.key, ": a map or a list is not ", s.line.accepts));
  }
}

// Counts are multiplied later. A seed may have 64 bits.
TEST(Options, HoldTheirBoundsAndEveryCountHasOne) {
  for (const Setting& s : named()) {
    if (!s.is_number()) continue;
    const std::string& key = s.line.key;
    const bool is_bits = s.load_with(key, "18446744073709551615") == "no error";
    if (s.is_whole() && !is_bits) s.expect_refused("9223372036854775807");
    double min = 0, max = 0;
    const char* const range = std::strstr(s.line.accepts.c_str(), "number ");
    const bool from = range && std::sscanf(range, "number %*[from>=] %lf to %lf", &min, &max) > 0;
    if (!from) continue;
    const double step = s.is_whole() ? 1 : 0;
    const double below = min == 0 ? -1e-300 : std::nextafter(min, -INFINITY);
    s.expect_refused(fmt::format("{}", step ? min - step : below));
    EXPECT_THAT(s.load_with(key, fmt::format("{}", min)), Not(HasSubstr(" is not "))) << key;
    if (max == 0) continue;
    s.expect_refused(fmt::format("{}", step ? max + step : std::nextafter(max, INFINITY)));
    EXPECT_THAT(s.load_with(key, fmt::format("{}", max)), Not(HasSubstr(" is not "))) << key;
  }
}

TEST(Options, OfTextKeepItOrNameTheirConditionOnOneLine) {
  for (const Setting& s : named()) {
    if (s.line.accepts != "text") continue;
    for (const std::string& text : {kHostile, std::string("~"), std::string("a: b # c")}) {
      Values values = s.names;
      values[s.line.key] = {text, "here"};
      if (s.load_with(s.line.key, text) != "no error") continue;
      const Plan plan = load(Plan{}, values);
      const Values printed = parse_yaml(print(plan, {}), "printed");
      EXPECT_EQ(dump(load(Plan{}, printed)), dump(plan)) << s.line.key;
    }
  }
}

TEST(Options, UnderAMisspeltKeyLeadToAKeyThatExists) {
  for (const Setting& s : named()) {
    if (s.is_an_entry()) continue;
    const std::string wrong = s.line.key + "q", begin = cat("here: unknown key '", wrong, "', ");
    const std::string message = s.load_with(wrong, "1");
    EXPECT_THAT(message, StartsWith(begin));
    const size_t named = message.find('\'', begin.size());
    if (named == std::string::npos) continue;
    const std::string key = message.substr(named + 1, message.find('\'', named + 1) - named - 1);
    EXPECT_THAT(s.load_with(key, "1"), Not(HasSubstr("unknown key"))) << message;
  }
}

// ---- resume

// Texts that the option may accept.
static Names other_texts(const Setting& s) {
  if (s.line.accepts == "text") return {s.line.text + "x"};
  if (s.is_number()) return {"1", "2", "3", "0", "0.5", "0.25", "8", "16", "100", "1.5"};
  return split_at(s.line.accepts, " or ");
}

// Returns two plans that differ in this option alone; nothing if no text gives such plans.
static std::optional<std::pair<Plan, Plan>> plans_with_and_without(const Setting& s) {
  for (const std::string& text : other_texts(s)) {
    Plan before, after;
    Values values = s.names;
    const std::string fault = refusal([&] {
      before = load(Plan{}, values);
      values[s.line.key] = {text};
      after = load(Plan{}, values);
    });
    if (fault == "no error" && differences(dump(before), dump(after), "").size() == 1)
      return std::pair(before, after);
  }
  return {};
}

TEST(Options, ChangeOnResumeAsTheirMarksSay) {
  std::map<Marks::Change, int> tried;
  for (const Setting& s : named()) {
    const std::string& key = s.line.key;
    const auto plans = plans_with_and_without(s);
    if (!plans) continue;
    const auto& [before, after] = *plans;
    const Marks marks = marks_of(after).at(key);
    ++tried[marks.change];
    const std::string same_run = refusal([&] { compare_plans(before, after); }),
                      branch = refusal([&] { compare_plans(before, after, Resume::branch); });
    if (marks.change == Marks::fixed) {
      EXPECT_THAT(branch,
                  AllOf(StartsWith("a resumed run cannot change " + key), HasSubstr(marks.why)));
      EXPECT_EQ(same_run, branch);
      continue;
    }
    EXPECT_EQ(branch, "no error") << key;
    if (option_owners().contains(key)) continue;
    EXPECT_EQ(same_run == "no error", marks.change == Marks::resumable) << key << ": " << same_run;
  }
  EXPECT_GT(tried[Marks::unmarked], 60);
  EXPECT_GT(tried[Marks::resumable], 60);
  EXPECT_GE(tried[Marks::fixed], 5);
  EXPECT_EQ(tried[Marks::branch], 1) << "dist.uneven";
}

// ---- advice

static Keys owned() {
  Keys keys;
  for (const auto& [key, toggle] : option_owners()) keys.insert(key);
  return keys;
}

// Returns the word that a shell makes of it.
static std::string unquoted(const std::string& word) {
  if (!word.starts_with("'")) return word;
  EXPECT_TRUE(word.ends_with("'")) << word;
  std::string text;
  for (const std::string& part : split_at(word.substr(1, word.size() - 2), "'\\''"))
    text += (text.empty() ? "" : "'") + part;
  return text;
}

// Checks that the parser takes an advice, and that its key and shape fit the options. A value with
// "..." or " or " is a placeholder.
static void expect_taken(const std::string& advice, const std::string& message, const Values& with,
                         const std::string& key) {
  Values values;
  const std::string place = key.substr(0, key.rfind('.') + 1);
  const bool word = std::regex_search(unquoted(advice), std::regex("^[a-z_0-9.]+="));
  const std::string fault = refusal([&] {
    values = word ? parse_overrides({unquoted(advice)}) : parse_yaml(advice + "\n", "advice");
  });
  ASSERT_EQ(fault, "no error") << advice << "\n" << message;
  const bool of_item = std::regex_search(key, std::regex("\\.[0-9]+\\.")) && !word &&
                       !advice.starts_with(key.substr(0, key.find('.')));
  Values all = with;
  for (const auto& [name, value] : values) {
    const std::string whole = of_item ? place + name : name;
    std::erase_if(all, [&](const auto& known) { return known.first == whole; });
    all[whole] = value;
  }
  const std::string answer = refusal([&] { load(Plan{}, all, owned()); });
  for (const char* wrong : {"unknown key", "is not a list", "is not a map", "one by one"})
    EXPECT_EQ(answer.find(wrong), answer.npos) << advice << "\n" << message << "\n" << answer;
}

static int check_advice(const std::string& message, const Values& with, const std::string& key) {
  const size_t at = message.find("write  ");
  if (at == message.npos) return 0;
  int count = 0;
  for (const std::string& advice : split_at(message.substr(at + 7), "  or  "))
    ++count, expect_taken(advice, message, with, key);
  return count;
}

TEST(Advice, OfEveryOptionIsTakenByTheParser) {
  int advised = 0, corrected = 0;
  for (const auto& [with, line, unnamed] : settings()) {
    const std::string& key = line.key;
    for (const char* origin : {kCommandLine, "a.yaml:1:1"})
      for (const std::string text : {"0.5", "x, y #z", "yes", "No", "+5", "[]"}) {
        Values source = with;
        source[key] = {text, origin};
        const std::string message = refusal([&] { load(Plan{}, source, owned()); });
        advised += check_advice(message, with, key);
        const size_t at = message.find("; write ");
        if (at == message.npos || message[at + 8] == ' ') continue;
        source[key].text = message.substr(at + 8);
        if (source[key].text.starts_with("it ")) continue;  // "write it in plain decimal digits"
        EXPECT_EQ(refusal([&] { load(Plan{}, source, owned()); }), "no error") << message;
        ++corrected;
      }
    for (size_t dot = key.find('.'); dot != key.npos; dot = key.find('.', dot + 1)) {
      Values source;  // a word where a section belongs
      source[key.substr(0, dot)] = {"x #y", kCommandLine};
      if (is_like(key, "0")) continue;
      check_advice(refusal([&] { load(Plan{}, source, owned()); }), {}, key);
    }
  }
  EXPECT_GT(advised, 20);
  EXPECT_GT(corrected, 20);
}

TEST(Advice, OnATogglesOptionIsTaken) {
  int advised = 0;
  for (const char* origin : {kCommandLine, "a.yaml:1:1"})
    for (const auto& [key, toggle] : option_owners()) {
      const std::string message = refusal([&] { make_config({{{key, {"true", origin}}}}); });
      const size_t at = message.find("write  ");
      if (at == message.npos) continue;
      for (std::string advice : split_at(message.substr(at + 7), "  or  ")) {
        advice = advice.substr(0, advice.find(';'));
        ++advised;
        EXPECT_EQ(refusal([&] {
                    Values source = origin == kCommandLine ? parse_overrides({unquoted(advice)})
                                                           : parse_yaml(advice + "\n", "advice");
                    for (auto& [name, given] : source) given.origin = "default";  // not "by name"
                    make_config({source});
                  }),
                  "no error")
            << message;
      }
    }
  EXPECT_GT(advised, 50);
}
