#include "trainer/verbs/verbs.h"
#include <execinfo.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>
#include "core/base/output.h"
#include "core/base/words.h"
#include "core/config/hint.h"
#include "core/config/values.h"
#include "trainer/log/system.h"
#include "trainer/run/signals.h"

namespace bellows {

int run_verb(const Verb& verb, const Arguments& args, const std::string& program) {
  CommandLine line(cat(program, " ", verb.name), verb.help, verb.example);
  return verb.run(line, args);
}

static void print_help() {
  say_part(R"(Bellows: a minimal training framework in which every optimization is a switch.

  trainer --config FILE [key=value ...]   trains a model
  trainer VERB --help                     prints the options of a verb
  trainer --version                       prints version, commit and libraries
)");
  for (const std::string group : {"train", "learn", "measure", "use"}) {
    say("");
    say(group);
    for (const auto& [name, verb] : verbs())
      if (verb.group == group) say(fmt::format("  {:11}{}", name, verb.help));
  }
}

static int run_named(const Arguments& args) {
  if (args.empty() || args[0] == "--help" || args[0] == "-h") {
    print_help();
    return args.empty() ? static_cast<int>(Exit::usage) : 0;
  }
  const std::string& first = args[0];
  if (first == "--version") return say_part(version_text()), 0;
  if (first.starts_with("-") || first.find('=') != std::string::npos)
    return run_verb(verbs().at("train"), args);
  const auto found = verbs().find(first);
  if (found == verbs().end()) {
    CHECK(!first.ends_with(".yaml"), "a config needs its option; write  trainer --config ",
          quoted(first));
    Names names;
    for (const auto& [name, verb] : verbs()) names.push_back(name);
    fail(Exit::usage, "unknown verb '", first, "', the nearest one is '", nearest(first, names),
         "'; trainer --help  lists all verbs");
  }
  return run_verb(found->second, {args.begin() + 1, args.end()});
}

static int report(Exit exit, std::string_view text) {
  complain(text);
  return static_cast<int>(exit);
}

static int run_guarded(const Arguments& args) {
  try {
    return run_named(args);
  } catch (const Error& error) {
    return report(error.exit, error.what());
  } catch (const std::bad_alloc&) {
    return report(Exit::memory, "out of memory; free some, or raise the limit (ulimit -v)");
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again)
      return report(Exit::internal, cat("internal error: ", error.what()));
    return report(Exit::memory,
                  "the system starts no more threads; raise the limit (ulimit -u), or use fewer:  "
                  "toggles.num_workers=0 threads.threads=1");
  } catch (const std::exception& error) {
    return report(Exit::internal, cat("internal error: ", error.what()));
  }
}

// Packed data sets keep a file open for each shard, and a soft limit is often 1024.
static void allow_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);  // if refused, opening a file reports the limit
}

static bool running = false;

// True if a write to stdout failed because its pipe (`| head`) or its terminal was closed, which is
// not an error, unlike a full disk.
static bool reader_left(int error) {
  struct stat output = {};
  fstat(STDOUT_FILENO, &output);
  return error == EPIPE || (error == EIO && S_ISCHR(output.st_mode));
}

static int run_help(CommandLine& line, const Arguments& args) {
  Arguments verb;
  line.add_option("verb", verb, "name of a verb, or bench and a benchmark; none: all verbs");
  if (!line.read(args)) return 0;
  verb.emplace_back("--help");
  return run_named(verb);
}

static const AddVerb help_verb({"help", "lists the verbs, or prints the options of one",
                                "trainer help ab", run_help, "learn"});

int run_program(const Arguments& args) {
  open_standard_streams();
  allow_open_files();
  void* frame = nullptr;  // loads what glibc needs to end a thread while there is memory for it;
  backtrace(&frame, 1);   // otherwise it would abort later
  wait_for_signals();
  // Writes to a closed pipe or beyond a file size limit then fail with an errno, which callers
  // check.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  // libgomp ends the process without memory or threads, after printing the reason.
  std::atexit([] {
    if (running) _exit(static_cast<int>(Exit::memory));
  });
  running = true;
  const int code = run_guarded(args);
  running = false;
  const int error = output_error();
  if (error == 0 || reader_left(error) || code != 0) return code;
  return report(Exit::storage, cat("stdout: ", std::strerror(error)));
}

}  // namespace bellows
