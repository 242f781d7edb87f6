#include "trainer/verbs/command_line.h"
#include <CLI/CLI.hpp>
#include <algorithm>
#include "core/base/check.h"
#include "core/base/output.h"

namespace bellows {

auto CommandLine::Option::required() const -> Option { return Option(option_->required()); }
auto CommandLine::Option::one_of(const std::vector<std::string>& values) const -> Option {
  return Option(option_->check(CLI::IsMember(values)));
}
auto CommandLine::Option::range(int64_t least, int64_t most) const -> Option {
  return Option(option_->check(CLI::Range(least, most).description("")));
}
auto CommandLine::Option::positive() const -> Option {
  return Option(option_->check(CLI::PositiveNumber));
}
auto CommandLine::Option::existing_folder() const -> Option {
  return Option(option_->check(CLI::ExistingDirectory));
}
auto CommandLine::Option::excludes(Option other) const -> Option {
  return Option(option_->excludes(other.option_));
}
auto CommandLine::Option::without_value(const std::string& meaning) const -> Option {
  option_->expected(0, 1);
  return Option(meaning.empty() ? option_ : option_->default_str(meaning));
}
auto CommandLine::Option::value_name(const std::string& name) const -> Option {
  return Option(option_->type_name(name));
}
auto CommandLine::Option::shows_default() const -> Option {
  return Option(option_->capture_default_str());
}
auto CommandLine::Option::hidden() const -> Option { return Option(option_->group("")); }
auto CommandLine::Option::each_takes_one() const -> Option {
  return Option(option_->allow_extra_args(false));
}

CommandLine::CommandLine(const std::string& program, const std::string& help,
                         const std::string& example)
    : program_(program), app_(new CLI::App(help, program)) {
  app_->footer("Example:\n  " + example);
}
CommandLine::~CommandLine() = default;

template <class T>
CommandLine::Option CommandLine::add_option(const std::string& names, T& variable,
                                            const std::string& help) {
  return Option(app_->add_option(names, variable, help));
}
template CommandLine::Option CommandLine::add_option(const std::string&, std::string&,
                                                     const std::string&);
template CommandLine::Option CommandLine::add_option(const std::string&, int64_t&,
                                                     const std::string&);
template CommandLine::Option CommandLine::add_option(const std::string&, double&,
                                                     const std::string&);
template CommandLine::Option CommandLine::add_option(const std::string&, Arguments&,
                                                     const std::string&);

CommandLine::Option CommandLine::add_flag(const std::string& name, bool& variable,
                                          const std::string& help) {
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
