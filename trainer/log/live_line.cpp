#include "trainer/log/live_line.h"
#include <sys/ioctl.h>
#include <unistd.h>
#include <cstdlib>
#include "core/base/output.h"
#include "core/base/trace.h"
#include "core/base/utf8.h"

namespace bellows {

// East Asian wide characters and emoji take two columns, combining marks none.
static int columns_of(int c) {
  const auto in = [c](int first, int last) { return first <= c && c <= last; };
  if (in(0x300, 0x36f) || in(0xfe00, 0xfe0f)) return 0;
  const bool wide = in(0x1100, 0x115f) || in(0x2e80, 0xa4cf) || in(0xac00, 0xd7a3) ||
                    in(0xf900, 0xfaff) || in(0xfe30, 0xfe6f) || in(0xff00, 0xff60) ||
                    in(0xffe0, 0xffe6) || in(0x1f300, 0x1faff) || in(0x20000, 0x3fffd);
  return wide ? 2 : 1;
}

std::string first_columns(std::string_view text, int columns) {
  const std::string safe = printable(text);
  size_t end = 0;
  while (end < safe.size()) {
    const Character c = character_at(std::string_view(safe).substr(end));
    columns -= columns_of(c.code_point);
    if (columns < 0) break;
    end += c.bytes;
  }
  return safe.substr(0, end);
}

static bool on_terminal() {
  const char* const term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) && !std::getenv("NO_COLOR") && term && std::string(term) != "dumb";
}

LiveLine::LiveLine(bool wanted) : on_(wanted && on_terminal()) {}

bool LiveLine::due() const { return on_ && trace::now_ns() - drawn_ns_ > 100'000'000; }

int LiveLine::width() const {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void LiveLine::draw(const std::string& text) {
  if (!on_) return;
  redraw(first_columns(text, width() - 1));  // a line as wide as the terminal would make it scroll
  drawn_ = true;
  drawn_ns_ = trace::now_ns();
}

void LiveLine::clear() {
  if (drawn_) redraw("");
  drawn_ = false;
}

}  // namespace bellows
