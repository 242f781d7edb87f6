// Prints to stdout and stderr, for all folders. Names, metadata, paths and unknown words may
// contain bytes that control a terminal, so all text goes through printable() (core/base/utf8.h)
// here. A line is one write, retried after EINTR and until all its bytes are written. A failed
// write to stdout does not stop training; it is reported at the end.
#pragma once
#include <string_view>

namespace bellows {

// Opens closed standard descriptors on /dev/null, so that no other file becomes stdout or stderr.
// Call it before any file is opened.
void open_standard_streams();

void say(std::string_view line);        // one line, on stdout; a newline in it is escaped
void say_part(std::string_view lines);  // lines with their newlines: a table, a help text
void say_error(std::string_view line);  // one line, on stderr
void warn(std::string_view line);       // "warning: <line>", on stderr
void complain(std::string_view text);   // "trainer: <text>", on stderr, line breaks as "; "

// Like say_part(), but with colors if on_terminal(): "faster:" and "no differences" are green,
// "slower:" is red, and "no difference shown" is yellow.
void say_verdicts(std::string_view lines);
// True if stdout is a terminal that takes escapes: TERM is not "dumb", and NO_COLOR is not set.
bool on_terminal();

// Overwrites the terminal's current line, without a newline. "" clears it.
void redraw(std::string_view line);

// Returns the errno of the first failed write to stdout, or 0.
int output_error();

}  // namespace bellows
