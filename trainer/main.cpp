// The program. All code is in the object library, so tests can call it too.
#include <unistd.h>
#include <new>
#include "core/base/file.h"
#include "trainer/verbs/verbs.h"

// Registries are filled before main(), where nothing could catch std::bad_alloc. Runs before them.
[[gnu::constructor(101)]] static void expect_bad_alloc_before_main() {
  std::set_new_handler([] {
    bellows::write_fully(STDERR_FILENO, bellows::bytes_of("trainer: out of memory at the start\n"));
    _exit(static_cast<int>(bellows::Exit::memory));
  });
}

int main(int argc, char** argv) {
  std::set_new_handler(nullptr);
  return bellows::run_program({argv + 1, argv + argc});
}
