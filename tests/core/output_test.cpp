// Text that a terminal would interpret is escaped, all other text is kept, and none can forge a
// line.
#include "core/base/output.h"
#include <gtest/gtest.h>
#include <functional>
#include "core/base/utf8.h"

using namespace bellows;

static std::string on_stdout(const std::function<void()>& print) {
  testing::internal::CaptureStdout();
  print();
  return testing::internal::GetCapturedStdout();
}
static std::string on_stderr(const std::function<void()>& print) {
  testing::internal::CaptureStderr();
  print();
  return testing::internal::GetCapturedStderr();
}

static const std::string kHostile = "a\x1b[2J\nsaved: all";

TEST(Output, ALineIsOneLine) {
  EXPECT_EQ(on_stdout([] { say(kHostile); }), "a\\x1b[2J\\x0asaved: all\n");
  EXPECT_EQ(on_stderr([] { say_error(kHostile); }), "a\\x1b[2J\\x0asaved: all\n");
  EXPECT_EQ(on_stderr([] { warn(kHostile); }), "warning: a\\x1b[2J\\x0asaved: all\n");
  EXPECT_EQ(on_stderr([] { complain(kHostile); }), "trainer: a\\x1b[2J; saved: all\n");
}

TEST(Output, LinesKeepTheirEndsAndNothingElse) {
  EXPECT_EQ(on_stdout([] { say_part("a\n\x1b[2Jb\r\n"); }), "a\n\\x1b[2Jb\\x0d\n");
}

TEST(Output, AProgressBarWritesOverItsLineWithEscapesOfItsOwnOnly) {
  EXPECT_EQ(on_stdout([] { redraw("50%\x1b[2J"); }), "\r\033[K50%\\x1b[2J");
  EXPECT_EQ(on_stdout([] { redraw(""); }), "\r\033[K");
}

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
