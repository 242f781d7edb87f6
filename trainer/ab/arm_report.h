// Options of the command lines and parts of the reports that `ab`, `ladder` and `sweep` share.
#pragma once
#include "trainer/ab/arms.h"
#include "trainer/verbs/command_line.h"

namespace bellows {

// ---- the command line

void declare_config(CommandLine& line, ArmOptions& options);  // --config, key=value
// --processes, --budget, --blocks, --steps, --warmup, --timeout, --report
void declare_rounds(CommandLine& line, ArmOptions& options, std::string& budget);
// Returns the seconds in "90s" or "2m"; 0 for "". Throws Error (exit 2).
double budget_of(const std::string& verb, const std::string& text);
// Splits at commas outside brackets and braces.
Names split(const std::string& list);
// Throws Error (exit 2) if the report cannot be a Markdown file in an existing folder.
void check_report(const ArmOptions& options);
// Writes the HTML page of a report in JSON, whose file's name begins the message of an error. The
// labs register it (labs/page/page.cpp); null in a program without them.
using PageWriter = std::string (*)(const Json& report, const std::string& name);
inline PageWriter& page_writer() {
  static PageWriter writer = nullptr;
  return writer;
}
struct AddPageWriter {
  explicit AddPageWriter(PageWriter writer, const char* file = __builtin_FILE()) {
    note_registration(file);
    page_writer() = writer;
  }
};

// Prints the report and, if a file is wanted, writes FILE.md, FILE.json and, with a page_writer(),
// the page FILE.html.
// Returns the exit code of a comparison: 0, or 128 + signal.
int publish(const RoundsResult& result, const std::string& markdown, Json json);

// Returns the command that repeats a comparison: "trainer ab --config FILE --toggle amp ...".
std::string command_of(const RoundsResult& result);

// ---- results

// Returns the end of a report: the command as code, and the machine as a list.
std::string measurement_text(const RoundsResult& result);
std::string ratio_text(const Speedup& s);  // "1.035 x (95 % interval 1.021 to 1.049)"
// "differs": the difference is beyond the noise of the placebo.
Json speedup_json(const Speedup& s, const RoundsResult& result);
// Geometric mean of the seconds per run, with its interval; the speedup is the ratio of two. With
// AbMeasure::target each run has another seed.
Speedup mean_run_s(const AbArm& arm, const ArmOptions& options);
Json arm_json(const AbArm& arm, const ArmOptions& options);
Json placebo_json(const RoundsResult& result);
Json counters_json(const AbArm& before, const AbArm& after);  // those that differ, per step
std::string megabytes(int64_t bytes);
// Item of a list that says why fewer rounds ran than were planned, or "".
std::string ended_early(const RoundsResult& result);
// Returns the list items that begin a report: why it ended early, the placebo's speedup, the number
// of rounds, and a busy machine.
std::string rounds_list(const RoundsResult& result);
// Largest of a quantity over the processes of an arm.
template <class Of> auto largest(const AbArm& arm, const Of& of) {
  auto most = of(arm.processes.front());
  for (const AbProcess& process : arm.processes) most = std::max(most, of(process));
  return most;
}
int64_t tensor_bytes(const AbArm& arm);    // peak
int64_t resident_bytes(const AbArm& arm);  // peak
std::string ms(double seconds);            // "12.34"
// Item of a Markdown list in lines of at most 80 columns, where words allow it.
std::string list_item(const std::string& text);
// The same for a line that a verb prints before it measures, "<verb>: <text>".
std::string message(const std::string& verb, const std::string& text);
// "1.035 (1.021, 1.049) *": the star marks a difference beyond the noise of the placebo.
std::string marked(const Speedup& s, const RoundsResult& result);
// Rows as a Markdown table that is readable unrendered: padded cells. The first row is the header;
// columns are aligned to the right, but for the first.
std::string markdown_table(const std::vector<Names>& rows);

}  // namespace bellows
