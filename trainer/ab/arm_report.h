// Options of the command lines and parts of the reports that `ab`, `ladder` and `sweep` share.
#pragma once
#include "trainer/ab/arms.h"
#include "trainer/verbs/command_line.h"

namespace bellows {

// ---- the command line

void declare_config(CommandLine& line, ArmOptions& options);  // --config, key=value
void declare_report(CommandLine& line, ArmOptions& options);  // --timeout, --report
// --processes, --budget, --blocks, --steps, --warmup, --timeout, --report
void declare_rounds(CommandLine& line, ArmOptions& options, std::string& budget);
// Limits the time of the comparison to "90s" or "2m", not its number of rounds. "" changes nothing.
// Throws Error (exit 2).
void limit_time(ArmOptions& options, const std::string& budget);
// Replaces sim.compute: auto for all arms alike (trainer/session/planted_load.h).
void settle_planted_load(ArmOptions& options);
// Applies --budget and checks --report, before a verb measures. Throws Error (exit 2) for a budget
// that is no time, and if the report cannot be a Markdown file in an existing folder.
void prepare(ArmOptions& options, const std::string& budget);
// Splits at commas outside brackets and braces.
Names split(const std::string& list);
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
// Prints a line before the measurement, "<verb>: <text>", as lines of at most 80 columns.
void announce(const std::string& verb, const std::string& text);
// Returns a report in Markdown as text of 80 columns: its tables have aligned columns.
std::string terminal_text(const std::string& markdown);
// Prints the report as terminal_text() and, if a file is wanted, writes FILE.md, FILE.json and,
// with a page_writer(), the page FILE.html. Returns the exit code of a comparison: 0, or 128 +
// signal.
int publish(const Comparison& c, const std::string& markdown, Json json);

// ---- results

// Returns rows as a Markdown table that is readable unrendered. The first row is the head.
std::string markdown_table(const std::vector<Names>& rows);
// A column of a Markdown table of JSON objects. It has their values under `key`, a path such as
// "speedup/ratio": numbers times `unit`, and a speedup as "1.035 (1.021, 1.049) *", where the star
// marks a difference beyond the noise of the placebo.
struct ArmColumn {
  std::string head, key;
  const char* format = "{:.4g}";
  double unit = 1;
  const char* missing = "-";  // printed for an object without the key
};
std::string markdown_table(const Json& rows, const std::vector<ArmColumn>& columns);
// Returns an item of a Markdown list in lines of at most 80 columns, where words allow it.
std::string list_item(const std::string& text);
std::string ms(double seconds);            // "12.34"
std::string ratio_text(const Speedup& s);  // "1.035 x (95 % interval 1.021 to 1.049)"
// "differs": the difference is beyond the noise of the placebo.
Json speedup_json(const Speedup& s, const Speedup& placebo);
Json speedup_json(const Speedup& s, const Comparison& c);
// Geometric mean of the seconds per run, with its interval; the speedup is the ratio of two. With
// AbMeasure::target each run has another seed.
Speedup mean_run_s(const AbArm& arm, const ArmOptions& options);
Json arm_json(const AbArm& arm, const ArmOptions& options);
Json counters_json(const AbArm& before, const AbArm& after);
// Returns a whole report: its kind, the command that repeats the comparison ("trainer ab --config
// FILE --toggle amp ..."), the placebo, why the machine was busy, the machine, and `own`.
Json report_json(const char* kind, const Comparison& c, const Json& own);
// Returns the end of a report: the command as code, and the machine as a list.
std::string measurement_text(const Comparison& c);
// Returns an item of a list that says why fewer rounds ran than were planned, or "".
std::string ended_early(const Comparison& c);
// Returns an item of a list that names the planted load, or "".
std::string planted_item(const Comparison& c);
// Returns the list items that begin a report: why it ended early, the placebo's speedup, the number
// of rounds, and a busy machine.
std::string rounds_list(const Comparison& c);
// Largest of AbEnd::peak_tensor_bytes or peak_resident_bytes over the processes of an arm.
int64_t peak(const AbArm& arm, int64_t AbEnd::*bytes);
Json machine_facts();        // call it when the rounds begin
std::string load_average();  // "0.52 0.58 0.59"

}  // namespace bellows
