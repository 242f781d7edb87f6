// Signal handling of the program. No handler ever runs: a library's kernel may have moved the stack
// pointer into the heap (oneDNN's JIT sgemm does), and the system would write the signal frame
// below it. A dedicated thread waits for signals instead.
#pragma once
#include <functional>

namespace bellows {

// Blocks SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 and SIGXCPU in the calling thread and starts the
// thread that waits for them. Call it before any other thread exists, so that all inherit the mask;
// later calls do nothing. Without a Signals object the default action follows, except that SIGUSR1
// and SIGUSR2 only record their request. If the thread cannot be started, signals keep their
// default action.
void wait_for_signals();

const char* name_of_signal(int signal);  // "SIGINT" or "SIGTERM"

// While an object exists, SIGINT and SIGTERM request the end, SIGXCPU (a limit on CPU time) does as
// SIGTERM, SIGUSR1 and SIGUSR2 request a checkpoint, and SIGHUP is ignored. A second SIGINT or
// SIGTERM exits at once with 128 + signal, with two exceptions. Within 0.1 s of the first it
// repeats that request, because `timeout` sends two. If the parent sent only one of the two, it may
// be a launcher that passes on the other. At most one object per process.
class Signals {
 public:
  // With `pass_on`, each signal only calls pass_on(signal), on the waiting thread. A SIGINT or
  // SIGTERM within 0.1 s of the one that was passed on is dropped. Throws Error (exit 6) if the
  // waiting thread could not be started.
  explicit Signals(std::function<void(int signal)> pass_on = {});
  ~Signals();  // waits for a running call of pass_on
  Signals(Signals&&) = delete;

  int stop() const;          // SIGINT or SIGTERM once requested, else 0
  bool take_save_request();  // true once after one or more SIGUSR1 or SIGUSR2

 private:
  const std::function<void(int)> pass_on_;
};

}  // namespace bellows
