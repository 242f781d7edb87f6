#include "core/base/utf8.h"
#include <fmt/format.h>
#include <algorithm>
#include <cstdint>

namespace bellows {

// Returns the length of the character that starts with this byte; 0 if none does.
static size_t length_after(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

// Returns the length of the character at the start of `bytes`; 0 if it is ill-formed.
static size_t character(std::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const size_t length = length_after(byte(0));
  if (length > bytes.size()) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const bool overlong = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
  const bool outside = (byte(0) == 0xed && byte(1) > 0x9f) || (byte(0) == 0xf4 && byte(1) > 0x8f);
  return overlong || outside ? 0 : length;
}

size_t find_non_text(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const unsigned char first = bytes[at];
    const bool control =
        first == 0x7f || (first < ' ' && first != '\t' && first != '\r' && first != '\n');
    const size_t length = control ? 0 : character(bytes.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

Character character_at(std::string_view bytes) {
  const size_t length = character(bytes);
  if (length == 0) return {};
  int code = static_cast<unsigned char>(bytes[0]) & (length == 1 ? 0x7f : 0xff >> (length + 1));
  for (size_t i = 1; i < length; ++i) code = code << 6 | (bytes[i] & 0x3f);
  const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  const bool ends_line = code == 0x2028 || code == 0x2029;
  const bool turns = code == 0x61c || code == 0x200e || code == 0x200f ||
                     (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return {length, code, !control && !ends_line && !turns};
}

std::string printable(std::string_view text, Newlines newlines) {
  std::string safe;
  while (!text.empty()) {
    const Character c = character_at(text);
    const bool stays = c.printable || (newlines == Newlines::keep && c.code_point == '\n');
    const size_t length = std::max<size_t>(c.bytes, 1);
    for (const char byte : text.substr(0, length))
      safe += stays ? std::string(1, byte) : fmt::format("\\x{:02x}", uint8_t(byte));
    text.remove_prefix(length);
  }
  return safe;
}

}  // namespace bellows
