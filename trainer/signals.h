// Signals of a training run. Handlers set a flag and nothing else; the loop asks between two steps.
#pragma once

namespace bellows {

// While it lives: SIGINT and SIGTERM ask for the end (a second one ends the process at once),
// SIGUSR1 asks for a checkpoint, SIGHUP is ignored. One at a time in a process.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(Signals&&) = delete;

  int stop() const;          // SIGINT, SIGTERM, or 0
  bool take_save_request();  // true once for each SIGUSR1
};

}  // namespace bellows
