// CommandLine: the arguments of a verb, as CLI11 reads them. Only command_line.cpp includes CLI11,
// whose headers take longer to compile than most verbs.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace bellows {

using Arguments = std::vector<std::string>;

// Returns the whole number in `text`, from 1 to `most`, or 0 if `text` is anything else.
int64_t whole_number(std::string_view text, int64_t most = INT64_MAX);

// Checks a file that a verb writes at its end, before its work begins. Throws Error (exit 2) if
// `file` is a folder or lies in none. `where` begins the message. An empty path is not checked.
void check_place(const std::string& file, const std::string& where);

class CommandLine {
 public:
  // One option of the command line, for further settings.
  class Option {
   public:
    explicit Option(CLI::Option* option) : option_(option) {}
    Option required() const;
    Option one_of(const std::vector<std::string>& values) const;
    Option range(int64_t least, int64_t most) const;
    Option positive() const;  // finite and above 0
    Option excludes(Option other) const;
    Option without_value(const std::string& meaning = "") const;  // the value may be left out
    Option value_name(const std::string& name) const;  // replaces TEXT or INT in the help
    Option shows_default() const;                      // the variable's present value
    Option hidden() const;                             // hides the option from the help
    Option each_takes_one() const;  // for a vector: the option is repeated for each value

   private:
    CLI::Option* option_;
  };

  // `help` and `example` are one line each.
  CommandLine(const std::string& program, const std::string& help, const std::string& example);
  ~CommandLine();
  CommandLine(CommandLine&&) = delete;

  // Declares an option. `names` is "--name,-n", or "name" for an argument without dashes, of which
  // a vector takes all. The variable must live until read() returns.
  // T: std::string, int64_t, double or Arguments.
  template <class T>
  Option add_option(const std::string& names, T& variable, const std::string& help);
  Option add_flag(const std::string& name, bool& variable, const std::string& help);
  // Declares the arguments that describe a run: a config file, and options that override its own.
  void add_config(std::string& config, Arguments& overrides,
                  const std::string& help = "YAML file with the options of the run");
  void add_note(const std::string& text);     // added at the end of the help, before the example
  bool given(const std::string& name) const;  // true if read() found that option

  // Parses `args`. Returns false if --help was given and has been printed. Throws Error (exit 2)
  // for unknown arguments, with the text `if_unexpected` unless that is null.
  bool read(Arguments args, const std::string& if_unexpected = "");
  // As the first argument, makes read() print the options that begin with the second argument, for
  // the completion of a shell, and return false.
  static constexpr const char* kComplete = "--complete";

 private:
  std::string program_;
  std::unique_ptr<CLI::App> app_;
};

}  // namespace bellows
