// UTF-8 that comes from outside: is it text at all, and is it safe to print?
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace bellows {

// The offset of the first byte that is no UTF-8 text: ill-formed (overlong forms, surrogates and
// code points past 0x10ffff too), or a control character but tab and line ends. npos if all is
// text.
size_t find_non_text(std::string_view bytes);

// For messages: whatever a terminal would obey instead of showing becomes \xNN, byte by byte.
// These are C0 and C1 control characters, DEL, ill-formed UTF-8, line separators and characters
// that turn the direction of writing. Printing the result again changes nothing. A newline stays
// where the text is made of lines (Newlines::keep).
enum class Newlines { escape, keep };
std::string printable(std::string_view text, Newlines newlines = Newlines::escape);

// The character that `bytes` begins with.
struct Character {
  size_t bytes = 0;  // 0: what is there is ill-formed
  int code_point = -1;
  bool printable = false;  // printable() leaves it alone
};
Character character_at(std::string_view bytes);  // `bytes` is not empty

}  // namespace bellows
