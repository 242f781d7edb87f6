#include "trainer/log/live_line.h"
#include <sys/ioctl.h>
#include <unistd.h>
#include <cstdlib>
#include "core/base/output.h"
#include "core/base/trace.h"

namespace bellows {

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
  redraw(
      text.substr(0, size_t(width() - 1)));  // a line as wide as the terminal would make it scroll
  drawn_ = true;
  drawn_ns_ = trace::now_ns();
}

void LiveLine::clear() {
  if (drawn_) redraw("");
  drawn_ = false;
}

}  // namespace bellows
