// A terminal that a program may have as its own. It stops background processes that write to it.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>
#include "tests/trainer/processes.h"
#include "tests/trainer/program.h"

namespace bellows {

class Terminal {
 public:
  Terminal() {
    const winsize size = {.ws_row = 24, .ws_col = 200, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(openpty(&screen_, &terminal_, nullptr, nullptr, &size), 0);
    fcntl(screen_, F_SETFL, O_NONBLOCK);
    termios settings;
    tcgetattr(terminal_, &settings);
    settings.c_lflag |= TOSTOP;
    tcsetattr(terminal_, TCSANOW, &settings);
  }
  ~Terminal() { close(screen_), close(terminal_); }
  Terminal(Terminal&&) = delete;

  // For Program::start(): the program's input, output and errors are this terminal.
  std::function<void()> in_child() const {
    return [this] {
      login_tty(terminal_);
      setenv("TERM", "xterm", 1);
      unsetenv("NO_COLOR");
    };
  }
  void type(char key) const { EXPECT_EQ(write(screen_, &key, 1), 1); }
  // Reads until the program ends. Returns what it showed, with exit code 99 after 20 seconds.
  Ended end(RunningProgram& program) const {
    std::string shown;
    const bool over = eventually([&] {
      const bool ended = program.over();
      char text[4096];
      for (ssize_t n; (n = read(screen_, text, sizeof(text))) > 0;) shown.append(text, n);
      return ended;
    });
    return {over ? program.end().code : 99, shown, ""};
  }

 private:
  int screen_ = -1, terminal_ = -1;
};

}  // namespace bellows
