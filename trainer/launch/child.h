// Child processes of the program: ranks of a launch, arms of a comparison.
#pragma once
#include <sys/types.h>
#include <string>
#include <vector>

namespace bellows {

struct Command {
  std::vector<std::string> argv;            // the first one is looked up in PATH
  std::vector<std::string> variables = {};  // "NAME=value", added to this process's environment
};

// The child receives this process's descriptor `ours` as its descriptor `its`.
struct Redirection {
  int ours, its;
};
enum class Group { ours, own };

// Starts a child that is killed when the calling thread ends, even by kill -9. Its signal mask is
// empty. Redirections apply in order; other descriptors are inherited unless they are O_CLOEXEC.
// With Group::own, its process group has its process number. It ends with 127 if the command cannot
// be executed. Any number of threads may exist. Throws Error, exit 6, if no process can be started.
pid_t start_child(const Command& command, const std::vector<Redirection>& redirections,
                  Group group);

// Replaces this process by the command, with an empty signal mask. Throws Error, exit 2, if it
// cannot be executed.
[[noreturn]] void become(const Command& command);

}  // namespace bellows
