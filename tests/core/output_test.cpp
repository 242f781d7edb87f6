// core/base/output: control bytes are escaped, and text cannot forge a line.
#include "core/base/output.h"
#include <gtest/gtest.h>
#include <functional>

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
