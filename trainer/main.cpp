// The program. All code is in the object library, so tests can call it too.
#include <unistd.h>
#include <cstdlib>
#include <exception>
#include <new>
#include "core/base/file.h"
#include "trainer/verbs/verbs.h"

// Ends the process without another allocation.
[[noreturn]] static void end_out_of_memory(std::string_view line) {
  bellows::write_fully(STDERR_FILENO, bellows::bytes_of(line));
  _exit(static_cast<int>(bellows::Exit::memory));
}

// Some noexcept functions allocate, such as the destructor of JSON. Without memory they call this.
static void terminate() {
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) {
    end_out_of_memory("trainer: out of memory; free some, or raise the limit (ulimit -v)\n");
  } catch (...) {
  }
  __gnu_cxx::__verbose_terminate_handler();
}

int main(int argc, char** argv) {
  std::set_terminate(terminate);
  return bellows::run_program({argv + 1, argv + argc});
}
