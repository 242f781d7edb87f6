// printable(): escapes everything that a terminal would interpret and keeps all other text.
#include "core/base/utf8.h"
#include <gtest/gtest.h>

using namespace bellows;

TEST(Printable, EscapesWhatATerminalWouldObey) {
  const struct {
    std::string text, shown;
  } cases[] = {
      {"plain text, größer, 画像, \xf0\x9f\x94\xa5", "plain text, größer, 画像, \xf0\x9f\x94\xa5"},
      {"\x1b[31mred", R"(\x1b[31mred)"},
      {std::string("a\0b\x07\x7f\r\t\n", 8), R"(a\x00b\x07\x7f\x0d\x09\x0a)"},
      {"c1 \xc2\x9bmm", R"(c1 \xc2\x9bmm)"},                // CSI in one character
      {"bidi \xe2\x80\xaegpj", R"(bidi \xe2\x80\xaegpj)"},  // U+202E
      {"isolate \xe2\x81\xa6 mark \xe2\x80\x8f \xd8\x9c",
       R"(isolate \xe2\x81\xa6 mark \xe2\x80\x8f \xd8\x9c)"},
      {"line \xe2\x80\xa8 end", R"(line \xe2\x80\xa8 end)"},
      {"\xff \xc3", R"(\xff \xc3)"},                          // ill-formed, cut
      {"\xc0\x8a \xed\xa0\x80", R"(\xc0\x8a \xed\xa0\x80)"},  // overlong newline, surrogate
      {"a backslash \\x1b", "a backslash \\x1b"},
      {"", ""},
  };
  for (const auto& [text, shown] : cases) {
    EXPECT_EQ(printable(text), shown);
    EXPECT_EQ(printable(printable(text)), shown);
  }
}

TEST(Printable, KeepsTheNewlinesOfTextThatIsMadeOfLines) {
  EXPECT_EQ(printable("a\r\nb\n", Newlines::keep), "a\\x0d\nb\n");
  EXPECT_EQ(printable("a\nb"), "a\\x0ab");
}
