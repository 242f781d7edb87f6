// trainer lesson NAME: runs the commands of a lesson. Before each it prints where to look, after it
// what was seen.
#include "labs/lesson/lesson.h"
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/wait.h>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include "core/base/file.h"
#include "core/base/output.h"
#include "core/config/hint.h"
#include "plan/toggle.h"
#include "trainer/launch/child.h"
#include "trainer/state/run_folder.h"
#include "trainer/state/run_record.h"
#include "trainer/verbs/tables.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

// ---- commands

// Returns the verb of a command, also after `launch --ranks 2 --`.
static std::string verb_of(const Names& command) {
  const auto dashes = std::ranges::find(command, "--");
  const std::string& first = dashes == command.end() ? command.front() : dashes[1];
  return first.starts_with("-") ? "train" : first;
}

static std::string capture_output(const Names& command, bool aloud) {
  LinePipe output;
  const pid_t child = start_child({command}, {{output.writer(), STDOUT_FILENO}}, Group::ours);
  output.close_writer();
  std::string text;
  while (!output.over()) {
    pollfd ready{output.reader(), POLLIN, 0};
    poll(&ready, 1, -1);
    for (const std::string& line : output.read_lines(false)) {
      if (aloud) say(line);
      text += line + "\n";
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0, "lesson: the command failed: trainer ",
        fmt::format("{}", fmt::join(command.begin() + 1, command.end(), " ")));
  return text;
}

CommandOutput run_command(const std::string& program, Names command) {
  const ScratchFolder scratch;
  const std::string verb = verb_of(command), report = scratch / "report.md",
                    json = scratch / "report.json", run = scratch / "run";
  const bool compares = std::set<std::string>{"ab", "ladder", "sweep", "tune"}.contains(verb);
  if (compares) command.insert(command.end(), {"--report", report});
  if (verb == "profile") command.insert(command.end(), {"--json", json});
  if (verb == "train") command.insert(command.end(), {"--run-dir", run});
  if (verb == "diagnose") command.emplace_back("--json");
  setenv("XDG_CACHE_HOME", (scratch / "cache").c_str(), 1);  // searches as on the first day
  command.insert(command.begin(), program);
  CommandOutput output{capture_output(command, verb != "diagnose")};
  if (compares || verb == "profile") output.report = read_json(json, Exit::internal);
  if (verb == "train") output.report = read_run(run);
  if (verb != "diagnose") return output;
  output.report = parse_json(output.text);
  output.text = output.report["text"];
  say_part(output.text);
  return output;
}

// Prints the figures beside those of the source text. Returns how many do not hold.
static int64_t report(const LessonStep& step, const CommandOutput& shown) {
  if (step.figures.empty()) return 0;
  int64_t wrong = 0;
  std::vector<TableRow> rows = {{"seen", "here", "source", "expected", ""}};
  for (const Figure& figure : step.figures) {
    const SeenFigure seen = look_at(figure, shown);
    wrong += !seen.holds;
    rows.push_back({figure.seen, seen.value, figure.source, figure.holds_if,
                    seen.holds ? "holds" : "DOES NOT HOLD"});
  }
  say_part(cat("\n", aligned(rows), "\n"));
  return wrong;
}

static const Lesson& known_lesson(const std::string& name) {
  Names names;
  for (const Lesson& lesson : lessons()) {
    if (lesson.name == name) return lesson;
    names.push_back(lesson.name);
  }
  fail(Exit::usage, "lesson: unknown lesson '", name, "', the nearest one is '",
       nearest(name, names), "'; trainer list lessons  lists them");
}

static int run_lesson(CommandLine& line, const Arguments& args) {
  std::string name;
  line.add_option("name", name, "one of `trainer list lessons`").required();
  line.add_note(
      "Runs the commands of docs/course/NAME.md in turn, from the folder of the checkout. Ends "
      "with "
      "exit code 5 if a figure is not as expected.");
  if (!line.read(args)) return 0;
  const Lesson& lesson = known_lesson(name);
  CHECK(kind_of("configs/lessons", Exit::usage) == Kind::folder,
        "lesson: no folder configs/lessons here; start it in the folder of the checkout");
  int64_t wrong = 0;
  say_wrapped(cat(lesson.name, ": ", lesson.title));
  for (const LessonStep& step : lesson.steps) {
    std::string command = "    trainer";
    for (const std::string& word : step.command) command += " " + bellows::quoted(word);
    say_part(cat("\n", wrapped(step.look, ""), "\n\n", command, "\n\n"));
    wrong += report(step, run_command("/proc/self/exe", step.command));
  }
  say_wrapped(
      cat("The lesson's page, with the mechanism and a question: docs/course/", name, ".md"));
  if (wrong > 0)
    fail(Exit::numeric, "lesson: ", name, ": ", count_of(wrong, "figure"), " not as expected here");
  return 0;
}

static const AddVerb lesson_verb({"lesson",
                                  "runs a case of the sources, and shows its figures beside ours",
                                  "trainer lesson weight_decay", run_lesson, "learn"});

// The last column lists the statements that the page cites and the toggles that it names as code,
// for `trainer explain`.
static std::vector<TableRow> lesson_rows() {
  std::vector<TableRow> rows;
  for (const Lesson& lesson : lessons()) {
    Names shown;
    const size_t sources = lesson.text.find("\nSource");
    std::istringstream line(lesson.text.substr(sources, lesson.text.find(": ", sources) - sources));
    for (std::string word; line >> word;)
      if (word[0] == 'S' && word.find(':') != std::string::npos)
        shown.push_back(word.substr(0, word.find_first_of(",;")));
    for (const Toggle& toggle : toggles())
      if (lesson.text.find("`" + toggle.name + "`") != std::string::npos)
        shown.push_back(toggle.name);
    rows.push_back({lesson.name, lesson.title, joined(shown)});
  }
  return rows;
}

static std::string lesson_text() {
  std::vector<TableRow> rows = lesson_rows();
  for (TableRow& row : rows) row.pop_back();
  return aligned(rows);
}

static const AddTable lesson_table(
    {"lessons", "lesson", {"lesson", "case", "shows"}, lesson_rows, false, lesson_text});

}  // namespace bellows
