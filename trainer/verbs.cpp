#include "trainer/verbs.h"
#include <csignal>
#include <cstring>
#include <new>
#include "toggles/hint.h"
#include "toggles/values.h"
#include "trainer/output.h"

namespace bellows {

CommandLine::CommandLine(const std::string& verb) : CommandLine("trainer", verbs().at(verb)) {}

CommandLine::CommandLine(const std::string& program, const Verb& verb)
    : CLI::App(verb.help, program + " " + verb.name) {
  footer(std::string("Example:\n  ") + verb.example);
}

bool CommandLine::read(Arguments args) {
  std::ranges::reverse(args);  // CLI11 takes them from the back
  try {
    parse(std::move(args));
  } catch (const CLI::CallForHelp&) {
    say_part(help());
    return false;
  } catch (const CLI::ParseError& error) {
    fail(Exit::usage, error.what(), "; see  ", get_name(), " --help");
  }
  return true;
}

static void print_help() {
  say("Bellows: a minimal training framework in which every speed-up is a switch.\n");
  say("  trainer --config FILE [key=value ...]   trains");
  say("  trainer VERB --help                     shows what a verb takes\n");
  for (const auto& [name, verb] : verbs()) {
    std::string left = "  " + name;
    left.resize(std::max<size_t>(left.size() + 1, 12), ' ');
    say(left + verb.help);
  }
}

static int run_verb(const Arguments& args) {
  if (args.empty() || args[0] == "--help" || args[0] == "-h") {
    print_help();
    return args.empty() ? static_cast<int>(Exit::usage) : 0;
  }
  const std::string& first = args[0];
  if (first.starts_with("-") || first.find('=') != std::string::npos)
    return verbs().at("train").run(args);
  const auto found = verbs().find(first);
  if (found == verbs().end()) {
    CHECK(!first.ends_with(".yaml"), "a config needs its option; write  trainer --config ", first);
    Names names;
    for (const auto& [name, verb] : verbs()) names.push_back(name);
    fail(Exit::usage, "unknown verb '", first, "', the nearest one is '", nearest(first, names),
         "'; trainer --help lists them all");
  }
  return found->second.run({args.begin() + 1, args.end()});
}

static int report(Exit exit, std::string_view text) {
  complain(text);
  return static_cast<int>(exit);
}

static int run_guarded(const Arguments& args) {
  try {
    return run_verb(args);
  } catch (const Error& error) {
    return report(error.exit, error.what());
  } catch (const std::bad_alloc&) {
    return report(Exit::memory, "out of memory; use a smaller data.batch_size");
  } catch (const std::exception& error) {
    return report(Exit::internal, cat("internal error: ", error.what()));
  }
}

int run_program(const Arguments& args) {
  // Writes to a closed pipe or past a file limit then fail with an errno, which somebody reads.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  const int code = run_guarded(args);
  const int error = output_error();
  // A reader that has seen enough (`| head`) is no failure; a full disk is.
  if (error == 0 || error == EPIPE || code != 0) return code;
  return report(Exit::storage, cat("stdout: ", std::strerror(error)));
}

}  // namespace bellows
