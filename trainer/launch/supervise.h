// Runs the ranks of a launch on this machine as child processes, until all have ended.
#pragma once
#include <cstdint>
#include "trainer/launch/child.h"

namespace bellows {

struct RankCommand {
  int64_t rank;
  Command command;
};

struct SuperviseOptions {
  bool all_output = false;  // print all ranks' output, prefixed; false: rank 0's alone, unchanged
  double grace_s = 10;      // time between SIGTERM and SIGKILL
  double timeout_s = 300;   // limit for the others to end, once one rank has ended with 0
};

// Starts the ranks and returns 0 once all have ended with 0. Their stdin is empty. Then:
//   a rank fails     the others receive SIGTERM, and SIGKILL after grace_s. Throws Error with the
//                    exit code of the first failure (128 + signal if one ended it), after printing
//                    that rank's last lines, unless its output is this process's own. Exit 7 may be
//                    the consequence of another failure: one within a second counts as the first.
//                    So does rank 0 before ranks with the same code: it writes the files of all.
//   a rank ends      with 0: the others have timeout_s to do the same. One that does not is stopped
//                    or stuck: ends the run as above and throws Error, exit 7, naming it.
//   a rank stops     with 128 + SIGINT or SIGTERM, on which all ranks have agreed after a signal to
//                    one: the others have grace_s to stop, too. If none fails, returns that code.
//   a signal to us   SIGINT, SIGTERM, SIGHUP and SIGUSR1 go to all ranks. If they end by SIGINT or
//                    SIGTERM, returns 128 + signal. The second of these kills them (Signals).
// Each rank leads a process group, so Ctrl-C reaches it once, through this process, and processes
// that it leaves behind are killed with it. The cost: Ctrl-Z stops this process only. A rank (not
// its own children) is killed when the calling thread ends, even by kill -9.
int supervise(const std::vector<RankCommand>& ranks, const SuperviseOptions& options);

}  // namespace bellows
