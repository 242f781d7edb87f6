// Signals of the program. No handler ever runs: a library's kernel may have moved the stack pointer
// into the heap (oneDNN's JIT sgemm does), and the system would write the signal's frame below it.
#pragma once

namespace bellows {

// Blocks SIGINT, SIGTERM, SIGHUP and SIGUSR1 in the calling thread, which all its threads inherit,
// and starts the thread that waits for them. Call it before any other thread exists; later calls
// do nothing. Without a Signals object the default action follows, except that SIGUSR1 only leaves
// its request.
void wait_for_signals();

// While it lives: SIGINT and SIGTERM request the end (a second one ends the process at once),
// SIGUSR1 requests a checkpoint, SIGHUP is ignored. One at a time in a process.
class Signals {
 public:
  Signals();  // throws Error (exit 6) if no thread could be had to wait for them
  ~Signals();
  Signals(Signals&&) = delete;

  int stop() const;          // SIGINT, SIGTERM, or 0
  bool take_save_request();  // true once after one or more SIGUSR1
};

}  // namespace bellows
