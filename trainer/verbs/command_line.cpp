#include "trainer/verbs/command_line.h"
#include <CLI/CLI.hpp>
#include <algorithm>
#include "core/base/check.h"
#include "core/base/output.h"

namespace bellows {

using Option = CommandLine::Option;

Option Option::required() const { return Option(option_->required()); }
Option Option::one_of(const std::vector<std::string>& values) const {
  return Option(option_->check(CLI::IsMember(values)));
}
Option Option::range(int64_t least, int64_t most) const {
  return Option(option_->check(CLI::Range(least, most).description("")));
}
Option Option::positive() const { return Option(option_->check(CLI::PositiveNumber)); }
Option Option::existing_folder() const { return Option(option_->check(CLI::ExistingDirectory)); }
Option Option::excludes(Option other) const { return Option(option_->excludes(other.option_)); }
Option Option::without_value(const std::string& meaning) const {
  option_->expected(0, 1);
  return Option(meaning.empty() ? option_ : option_->default_str(meaning));
}
Option Option::value_name(const std::string& name) const {
  return Option(option_->type_name(name));
}
Option Option::shows_default() const { return Option(option_->capture_default_str()); }
Option Option::hidden() const { return Option(option_->group("")); }

CommandLine::CommandLine(const std::string& program, const std::string& help,
                         const std::string& example)
    : program_(program), app_(new CLI::App(help, program)) {
  app_->footer("Example:\n  " + example);
}
CommandLine::~CommandLine() = default;

template <class T>
Option CommandLine::add_option(const std::string& names, T& variable, const std::string& help) {
  return Option(app_->add_option(names, variable, help));
}
template Option CommandLine::add_option(const std::string&, std::string&, const std::string&);
template Option CommandLine::add_option(const std::string&, int64_t&, const std::string&);
template Option CommandLine::add_option(const std::string&, double&, const std::string&);
template Option CommandLine::add_option(const std::string&, Arguments&, const std::string&);

Option CommandLine::add_flag(const std::string& name, bool& variable, const std::string& help) {
  return Option(app_->add_flag(name, variable, help));
}

void CommandLine::add_note(const std::string& text) {
  app_->footer(text + "\n\n" + app_->get_footer());
}

bool CommandLine::given(const std::string& name) const { return app_->count(name) > 0; }

// Refuses empty values, as in  --config "$UNSET". They would stand for a default, or take the next
// word as their value.
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

bool CommandLine::read(Arguments args) {
  refuse_empty(args, program_);
  std::ranges::reverse(args);  // CLI11 expects the last one first
  try {
    app_->parse(std::move(args));
  } catch (const CLI::CallForHelp&) {
    say_part(app_->help());
    return false;
  } catch (const CLI::ParseError& error) {
    fail(Exit::usage, error.what(), "; see  ", program_, " --help");
  }
  return true;
}

}  // namespace bellows
