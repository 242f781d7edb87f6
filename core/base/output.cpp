#include "core/base/output.h"
#include <fcntl.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include "core/base/file.h"
#include "core/base/utf8.h"

namespace bellows {

void open_standard_streams() {
  int descriptor = 0;
  while (descriptor >= 0 && descriptor <= STDERR_FILENO) descriptor = open("/dev/null", O_RDWR);
  if (descriptor > STDERR_FILENO) ::close(descriptor);
}

static std::atomic<int> first_error = 0;

static void print(const std::string& text) {
  int none = 0;
  if (!write_fully(STDOUT_FILENO, bytes_of(text))) first_error.compare_exchange_strong(none, errno);
}

void say(std::string_view line) { print(printable(line) + "\n"); }

void say_part(std::string_view lines) { print(printable(lines, Newlines::keep)); }

bool on_terminal() {
  const char *const term = std::getenv("TERM"), *const no_color = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) && !no_color && term && std::string_view(term) != "dumb";
}

void say_verdicts(std::string_view lines) {
  constexpr std::string_view kEnd = "\033[0m";
  std::string text = printable(lines, Newlines::keep);
  for (const auto& [word, color] : {std::pair<std::string_view, std::string>("faster:", "\033[32m"),
                                    {"no differences", "\033[32m"},
                                    {"slower:", "\033[31m"},
                                    {"no difference shown", "\033[33m"}})
    for (size_t at = 0; on_terminal() && (at = text.find(word, at)) != text.npos;
         at += kEnd.size()) {
      text.insert(at, color);
      text.insert(at += color.size() + word.size(), kEnd);
    }
  print(text);
}

void redraw(std::string_view line) { print("\r\033[K" + printable(line)); }

// Ignores failures, because stderr is the last place to report one.
void say_error(std::string_view line) {
  write_fully(STDERR_FILENO, bytes_of(printable(line) + "\n"));
}

void warn(std::string_view line) { say_error("warning: " + std::string(line)); }

void complain(std::string_view text) {
  std::string line = "trainer: ";
  for (const char c : text) line += c == '\n' ? std::string("; ") : std::string(1, c);
  say_error(line);
}

int output_error() { return first_error; }

}  // namespace bellows
