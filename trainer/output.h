// What the program says. Lines go to stdout at once, so `| tee` follows a run; a write that fails
// is remembered and reported at the end, because training is worth more than its log.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace bellows {

void say(std::string_view line);       // and a newline
void say_part(std::string_view text);  // as it is: a progress bar
void complain(std::string_view text);  // "trainer: <text>" on stderr, line breaks as "; "

// "a, b"; of no names: `none`.
std::string joined(const std::vector<std::string>& names, std::string_view none = "");

// Flushes stdout. 0, or the errno of the first write that failed since the program began.
int output_error();

}  // namespace bellows
