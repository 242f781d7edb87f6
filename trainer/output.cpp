#include "trainer/output.h"
#include <fmt/format.h>
#include <cerrno>
#include <cstdio>

namespace bellows {

static int first_error = 0;

static void remember(bool written) {
  if (!written && first_error == 0) first_error = errno ? errno : EIO;
}

void say_part(std::string_view text) {
  remember(std::fwrite(text.data(), 1, text.size(), stdout) == text.size());
  remember(std::fflush(stdout) == 0);
}

void say(std::string_view line) { say_part(std::string(line) + "\n"); }

void complain(std::string_view text) {
  std::string line = "trainer: ";
  for (const char c : text) line += c == '\n' ? std::string("; ") : std::string(1, c);
  std::fprintf(stderr, "%s\n", line.c_str());
}

std::string joined(const std::vector<std::string>& names, std::string_view none) {
  return names.empty() ? std::string(none) : fmt::format("{}", fmt::join(names, ", "));
}

int output_error() {
  remember(std::fflush(stdout) == 0);
  return first_error;
}

}  // namespace bellows
