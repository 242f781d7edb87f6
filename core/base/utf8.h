// Validates UTF-8 from outside the program, and makes it safe to print.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace bellows {

// Returns the offset of the first byte that is not UTF-8 text, or npos. Not text: ill-formed
// sequences (also overlong forms, surrogates and code points above 0x10ffff), DEL, and C0 control
// characters except tab and line ends.
size_t find_non_text(std::string_view bytes);

// Escapes text for messages: bytes that a terminal would obey become \xNN. These are C0 and C1
// control characters, DEL, ill-formed UTF-8, line separators and characters that change the writing
// direction. Idempotent. Newlines::keep keeps newlines, for text of several lines.
enum class Newlines { escape, keep };
std::string printable(std::string_view text, Newlines newlines = Newlines::escape);

// First character of a string.
struct Character {
  size_t bytes = 0;  // 0: ill-formed
  int code_point = -1;
  bool printable = false;  // printable() keeps it
};
Character character_at(std::string_view bytes);  // `bytes` must not be empty

}  // namespace bellows
