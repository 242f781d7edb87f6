// The program. All code is in the object library, so tests can call it too.
#include <unistd.h>
#include <cstdlib>
#include <new>
#include "core/base/file.h"
#include "trainer/verbs/verbs.h"

static bool begun = false;

// Registries and libraries are initialized before main(), where nothing could catch that memory is
// used up: `new` throws, and libgomp ends the process with 1 after printing the reason.
static void expect_no_memory_before_main(int, char**, char**) {
  std::set_new_handler([] {
    bellows::write_fully(STDERR_FILENO, bellows::bytes_of("trainer: out of memory at the start\n"));
    _exit(static_cast<int>(bellows::Exit::memory));
  });
  std::atexit([] {
    if (!begun) _exit(static_cast<int>(bellows::Exit::memory));
  });
}
// Runs before the initializers of all libraries.
[[gnu::section(".preinit_array"),
  gnu::used]] static void (*const first)(int, char**, char**) = expect_no_memory_before_main;

int main(int argc, char** argv) {
  begun = true;
  std::set_new_handler(nullptr);
  return bellows::run_program({argv + 1, argv + argc});
}
