// The verbs of the program, `trainer <verb> ...`. A verb is a file that registers itself:
//
//   static int run_eval(CommandLine& line, const Arguments& args) {
//     std::string from;
//     line.add_option("run", from, "run folder or checkpoint").required();
//     if (!line.read(args)) return 0;  // --help
//     ...
//   }
//   static const AddVerb eval_verb({"eval", "metrics of a trained model",
//                                   "trainer eval runs/lenet", run_eval});
#pragma once
#include <map>
#include "core/base/check.h"
#include "core/base/registry.h"
#include "trainer/verbs/command_line.h"

namespace bellows {

struct Verb {
  const char* name;
  const char* help;     // help text of one line
  const char* example;  // a command that works
  // Declares the verb's options in `line`, which has help and example already, and reads `args`.
  // Returns the exit code or throws Error.
  int (*run)(CommandLine& line, const Arguments& args);
  const char* group = "measure";  // heading in `trainer --help`: train, learn, measure or use
};
inline std::map<std::string, Verb>& verbs() {
  static std::map<std::string, Verb> all;
  return all;
}
// The benchmarks of `trainer bench NAME` (labs/bench/bench.h).
inline std::map<std::string, Verb>& benches() {
  static std::map<std::string, Verb> all;
  return all;
}

struct AddVerb {
  explicit AddVerb(const Verb& verb, std::map<std::string, Verb>& all = verbs(),
                   const char* file = __builtin_FILE()) {
    note_registration(file);
    all[verb.name] = verb;
  }
};

// Runs a verb. `program` stands before its name in messages.
int run_verb(const Verb& verb, const Arguments& args, const std::string& program = "trainer");

// Runs the verb that the first argument names, or `train` if that is an option or key=value.
// Returns the exit code. Reports each failure as one line on stderr.
int run_program(const Arguments& args);

}  // namespace bellows
