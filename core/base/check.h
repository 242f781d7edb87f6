// Error reporting. CHECK validates input that a caller may get wrong; INVARIANT detects bugs of
// Bellows itself. Both throw an Error, which carries the exit code of the program. The message
// contains the offending values and the remedy.
#pragma once
#include <sstream>
#include <stdexcept>
#include <string>

namespace bellows {

enum class Exit : int {
  done = 0,
  usage = 2,        // command line or configuration
  data = 3,         // file, record index, path
  checkpoint = 4,   // unusable or damaged
  numeric = 5,      // non-finite loss, collapsed scale
  memory = 6,       // host or device
  distributed = 7,  // rank, step, bucket
  storage = 8,      // space, permission, I/O
  internal = 9,
  interrupted = 130,  // SIGINT, after a final checkpoint
  terminated = 143,   // SIGTERM, after a final checkpoint
};

struct Error : std::runtime_error {
  explicit Error(const std::string& what, Exit exit = Exit::usage)
      : std::runtime_error(what), exit(exit) {}
  Exit exit;
};

// Concatenates the parts as operator<< prints them; a bool is "true" or "false".
template <class... Parts> std::string cat(const Parts&... parts) {
  std::ostringstream out;
  out << std::boolalpha;
  (out << ... << parts);
  return out.str();
}

template <class... Parts> [[noreturn]] void fail(Exit exit, const Parts&... parts) {
  throw Error(cat(parts...), exit);
}

}  // namespace bellows

// Macros, so that the parts of the message are evaluated only when the condition fails. CHECK
// throws Exit::usage, INVARIANT Exit::internal.
#define CHECK(condition, ...)                               \
  do {                                                      \
    if (!(condition)) [[unlikely]]                          \
      ::bellows::fail(::bellows::Exit::usage, __VA_ARGS__); \
  } while (false)
#define INVARIANT(condition, ...)                                                        \
  do {                                                                                   \
    if (!(condition)) [[unlikely]]                                                       \
      ::bellows::fail(::bellows::Exit::internal, "internal error: ", __VA_ARGS__, "  [", \
                      #condition, " ", __FILE__, ":", __LINE__, "]");                    \
  } while (false)
