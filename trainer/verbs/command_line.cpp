#include "trainer/verbs/command_line.h"
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <sstream>
#include "core/base/check.h"
#include "core/base/file.h"
#include "core/base/output.h"
#include "core/config/config.h"
#include "core/config/hint.h"
#include "core/config/removed.h"
#include "trainer/verbs/tables.h"

namespace bellows {

// Reads all of `text` as a number.
static bool reads(std::string_view text, auto& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

int64_t whole_number(std::string_view text, int64_t most) {
  int64_t number = 0;
  return reads(text, number) && number >= 1 && number <= most ? number : 0;
}

void check_place(const std::string& file, const std::string& where) {
  if (file.empty()) return;
  const Path path = file, folder = path.has_parent_path() ? path.parent_path() : ".";
  CHECK(kind_of(folder, Exit::usage) == Kind::folder, where, ": no folder ", folder.string(),
        "; make it, or name a file in another one");
  CHECK(kind_of(path, Exit::usage) != Kind::folder, where, ": ", file, " is a folder; name a file");
}

using Setting = CommandLine::Option;

// Checks of a value. CLI11 accepts "010" as octal, and NaN as positive; a command line takes the
// same numbers as a config.
template <class T> static std::string find_fault(const std::string& text) {
  double number = 0;
  int64_t whole = 0;
  if (std::is_same_v<T, double> && !(reads(text, number) && std::isfinite(number)))
    return cat("'", text, "' is not a number");
  if (std::is_same_v<T, int64_t> && !(reads(text, whole) && std::to_string(whole) == text))
    return cat("'", text, "' is not a whole number");
  return "";
}
static std::string fault_unless_positive(const std::string& text) {
  double number = 0;
  const bool positive = reads(text, number) && std::isfinite(number) && number > 0;
  return positive ? "" : cat("'", text, "' is not a number above 0");
}

Setting Setting::required() const { return Setting(option_->required()); }
Setting Setting::one_of(const std::vector<std::string>& values) const {
  return Setting(option_->check(CLI::IsMember(values)));
}
Setting Setting::range(int64_t least, int64_t most) const {
  return Setting(option_->check(CLI::Range(least, most).description("")));
}
Setting Setting::positive() const {
  return Setting(option_->check(fault_unless_positive, "POSITIVE"));
}
Setting Setting::excludes(Setting other) const { return Setting(option_->excludes(other.option_)); }
Setting Setting::without_value(const std::string& meaning) const {
  option_->expected(0, 1);
  return Setting(meaning.empty() ? option_ : option_->default_str(meaning));
}
Setting Setting::value_name(const std::string& name) const {
  return Setting(option_->type_name(name));
}
Setting Setting::shows_default() const { return Setting(option_->capture_default_str()); }
Setting Setting::hidden() const { return Setting(option_->group("")); }
Setting Setting::each_takes_one() const { return Setting(option_->allow_extra_args(false)); }

namespace {
class NamesOnce : public CLI::Formatter {
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    const bool is_second = !is_positional && option->get_positional();
    return is_second ? "" : CLI::Formatter::make_option(option, is_positional);
  }
  // CLI11 ends with the excluded options in the order of their addresses, which differs by run.
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string text = CLI::Formatter::make_option_opts(option), head = " Excludes:";
    const size_t end = text.find(head);
    if (end == text.npos) return text;
    Names names;
    for (const CLI::Option* other : option->get_excludes()) names.push_back(other->get_name());
    std::ranges::sort(names);
    return cat(text.substr(0, end), head, " ", fmt::format("{}", fmt::join(names, " ")));
  }
};
}  // namespace

CommandLine::CommandLine(const std::string& program, const std::string& help,
                         const std::string& example)
    : program_(program), app_(new CLI::App(help, program)) {
  app_->formatter(std::make_shared<NamesOnce>());
  app_->footer("Example:\n  " + example);
}
CommandLine::~CommandLine() = default;

template <class T>
Setting CommandLine::add_option(const std::string& names, T& variable, const std::string& help) {
  return Setting(app_->add_option(names, variable, help)->check(find_fault<T>));
}
template Setting CommandLine::add_option(const std::string&, std::string&, const std::string&);
template Setting CommandLine::add_option(const std::string&, int64_t&, const std::string&);
template Setting CommandLine::add_option(const std::string&, double&, const std::string&);
template Setting CommandLine::add_option(const std::string&, Arguments&, const std::string&);

Setting CommandLine::add_flag(const std::string& name, bool& variable, const std::string& help) {
  return Setting(app_->add_flag(name, variable, help));
}

void CommandLine::add_config(std::string& config, Arguments& overrides, const std::string& help) {
  add_option("overrides", overrides, "key=value: options that override those of the file");
  add_option("--config,-c", config, help);
}

void CommandLine::add_note(const std::string& text) {
  app_->footer(text + "\n\n" + app_->get_footer());
}

bool CommandLine::given(const std::string& name) const { return app_->count(name) > 0; }

// Refuses empty values, as in --config "$UNSET". An empty value would mean a default, or the next
// word would become the value.
static void refuse_empty(const Arguments& args, const std::string& program) {
  for (size_t i = 0; i < args.size(); ++i) {
    const bool assigned = args[i].starts_with("--") && args[i].find('=') == args[i].size() - 1;
    const bool follows = i > 0 && args[i - 1].starts_with("-");
    CHECK(!args[i].empty() && !assigned,
          assigned  ? args[i].substr(0, args[i].size() - 1)
          : follows ? args[i - 1]
                    : program,
          ": the value is empty; write one, or leave the option out");
  }
}

// Returns the missing arguments. If those without dashes are missing, adds a command with all.
static std::string describe_missing(const CLI::App& app, const std::string& otherwise) {
  std::string missing, all;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_required() || !option->get_positional()) continue;
    std::string name = " " + option->get_name(true);
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
    if (option->count() == 0) missing += name;
    all += name;
  }
  if (missing.empty()) return otherwise;
  return cat("missing:", missing, "; write  ", app.get_name(), all);
}

// Column in which a description begins: after a name and two spaces, or after spaces alone.
static size_t find_column(const std::string& line) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const size_t gap = line.find("  ", begin);
  const size_t column = gap == line.npos ? begin : line.find_first_not_of(' ', gap);
  constexpr size_t kWidest = 40;  // leaves room for the text
  return column > kWidest ? begin : column;
}

// Breaks the lines of a help page. Examples stay whole, so that they can be copied.
static std::string in_80_columns(const std::string& help) {
  const size_t examples = help.find("\nExample:");
  std::istringstream lines(help.substr(0, examples));
  std::string text;
  for (std::string line; std::getline(lines, line);)
    text += wrapped(line, std::string(find_column(line), ' ')) + "\n";
  return text + help.substr(std::min(examples, help.size()));
}

static void print_options(const CLI::App& app, const std::string& begin) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames())
      if (cat("--", name).starts_with(begin) && !option->get_group().empty()) say("--" + name);
}

bool CommandLine::read(Arguments args, const std::string& if_unexpected) {
  try {
    if (args.size() == 2 && args[0] == kComplete) return print_options(*app_, args[1]), false;
    refuse_empty(args, program_);
    for (std::string& arg : args)  // the shell expands only a ~ that begins a word
      if (const size_t equals = arg.find('='); arg.starts_with("--") && equals != arg.npos)
        arg = arg.substr(0, equals + 1) + with_home(arg.substr(equals + 1));
    std::ranges::reverse(args);  // CLI11 expects the last one first
    app_->parse(std::move(args));
    return true;
  } catch (const CLI::CallForHelp&) {
    say_part(in_80_columns(app_->help()));
    return false;
  } catch (const CLI::RequiredError& error) {
    fail(Exit::usage, describe_missing(*app_, error.what()), "; see  ", program_, " --help");
  } catch (const CLI::ExtrasError&) {  // its text has the arguments in reverse order
    if (!if_unexpected.empty()) fail(Exit::usage, if_unexpected);
    const std::vector<std::string> words = app_->remaining();
    const std::string gone = removal(cat(program_, " ", words.at(0)));
    fail(Exit::usage, "unexpected: ", fmt::format("{}", fmt::join(words, " ")), "; ",
         gone.empty() ? cat("see  ", program_, " --help") : gone);
  } catch (const CLI::ParseError& error) {
    fail(Exit::usage, error.what(), "; see  ", program_, " --help");
  }
}

}  // namespace bellows
