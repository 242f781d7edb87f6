// The program. All code is in the object library, so tests can call it too.
#include <unistd.h>
#include <cstdlib>
#include <exception>
#include <new>
#include "core/base/file.h"
#include "trainer/verbs/verbs.h"

static bool begun = false;

// Ends the process without another allocation.
[[noreturn]] static void end_out_of_memory(std::string_view line) {
  bellows::write_fully(STDERR_FILENO, bellows::bytes_of(line));
  _exit(static_cast<int>(bellows::Exit::memory));
}

// Registries and libraries are initialized before main(), where nothing could catch that memory is
// used up: `new` throws, and libgomp ends the process with 1 after printing the reason.
static void expect_no_memory_before_main(int, char**, char**) {
  std::set_new_handler([] { end_out_of_memory("trainer: out of memory at the start\n"); });
  std::atexit([] {
    if (!begun) _exit(static_cast<int>(bellows::Exit::memory));
  });
}
// Runs before the initializers of all libraries.
[[gnu::section(".preinit_array"),
  gnu::used]] static void (*const first)(int, char**, char**) = expect_no_memory_before_main;

// Some functions that let no exception out allocate all the same; one is the destructor of JSON.
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
  begun = true;
  std::set_new_handler(nullptr);
  std::set_terminate(terminate);
  return bellows::run_program({argv + 1, argv + argc});
}
