#include "core/base/utf8.h"
#include <fmt/format.h>
#include <algorithm>
#include <bit>
#include <cstdint>

namespace bellows {

size_t find_non_text(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const unsigned char first = bytes[at];
    const bool control =
        first == 0x7f || (first < ' ' && first != '\t' && first != '\r' && first != '\n');
    const size_t length = control ? 0 : character_at(bytes.substr(at)).bytes;
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

Character character_at(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  const int ones = std::countl_one(first);  // length of the character, or 0 for ASCII
  const size_t length = std::max(ones, 1);
  if (ones == 1 || ones > 4 || length > bytes.size()) return {};
  int code = first & 0xff >> (ones + 1);
  for (size_t i = 1; i < length; ++i) {
    if ((bytes[i] & 0xc0) != 0x80) return {};
    code = code << 6 | (bytes[i] & 0x3f);
  }
  constexpr int kLeast[] = {0, 0x80, 0x800, 0x10000};  // smaller ones are overlong
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < kLeast[length - 1] || surrogate || code > 0x10ffff) return {};
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
