// Printing: the only way to stdout and stderr, for every folder. Names, metadata,
// paths and unknown words may hold bytes that a terminal obeys; all of it goes through printable()
// (core/base/utf8.h) here, so no caller can forget it. A line is one write, repeated after EINTR
// and until all of its bytes have moved. A write to stdout that fails is remembered and reported at
// the end, because training is worth more than its log.
#pragma once
#include <string_view>

namespace bellows {

// Opens standard descriptors that are closed on /dev/null, so that no file of ours gets the number
// of stdout or stderr. Call it before any file is opened.
void open_standard_streams();

void say(std::string_view line);        // one line, on stdout; a newline in it is escaped
void say_part(std::string_view lines);  // lines that end themselves: a table, a help text
void say_error(std::string_view line);  // one line, on stderr
void warn(std::string_view line);       // "warning: <line>", on stderr
void complain(std::string_view text);   // "trainer: <text>", on stderr, line breaks as "; "

// Writes over the terminal's current line, without a newline. "" leaves it empty.
void redraw(std::string_view line);

// 0, or the errno of the first write to stdout that failed since the program began.
int output_error();

}  // namespace bellows
