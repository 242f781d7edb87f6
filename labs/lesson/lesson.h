// Lessons: the pages in docs/course/, which the program contains. A page is text for a reader and
// what `trainer lesson NAME` does:
//   # Title
//   A paragraph before a command says where to look.
//
//       trainer sweep --config configs/lessons/deeplab_workers.yaml --key num_workers=2,8
//
//   | seen | where | source | ours | holds if |
//   |---|---|---|---|---|
//   | speed of 8 workers | `/arms/1/speedup_over_first/ratio` | 2.08 | 1.98 | 1.7 to 2.4 |
// The table is about the command above it. `where`: a place in its report (a JSON pointer), two
// with " : " between them for their quotient, or text that it prints. `source`: figure of the
// source text. `ours`: what a machine of the project showed. `holds if`: "A to B", "at least A",
// "at most B", "= text", or "printed".
#pragma once
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "core/base/words.h"

namespace bellows {

struct Figure {
  std::string seen, where, source, holds_if;
};

struct LessonStep {
  std::string look;  // the paragraph before the command
  Names command;     // words of the command, without "trainer"
  std::vector<Figure> figures;
};

struct Lesson {
  std::string name, title, text;  // text: the page
  std::vector<LessonStep> steps;
};

// Splits a command at spaces outside quotes, as a shell would.
Names split_command(const std::string& command);

// Reads a page. Throws Error (exit 9) if a table does not follow a command, or has other columns.
Lesson parse_lesson(const std::string& name, const std::string& page);
const std::vector<Lesson>& lessons();  // sorted by name

// Output and report of a lesson's command.
struct CommandOutput {
  std::string text;  // output of the command
  Json report = {};  // report of ab, ladder, sweep, diagnose, profile; of training, read_run()
};

// Runs a command of a lesson with the program at that path, and prints its output. Reports and runs
// are deleted afterwards. Throws Error (exit 2) if the command fails.
CommandOutput run_command(const std::string& program, Names command);

// Returns the value of a figure as text and whether it holds. A place that the report does not have
// is "missing" and does not hold.
struct SeenFigure {
  std::string value;
  bool holds = false;
};
SeenFigure look_at(const Figure& figure, const CommandOutput& shown);

}  // namespace bellows
