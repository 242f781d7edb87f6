// Child processes of the program: ranks of a launch, arms of a comparison. A pipe for their output,
// and a port for their store.
#pragma once
#include <sys/types.h>
#include <string>
#include <vector>
#include "core/base/file.h"

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
// With Group::own, the child leads a process group. The child ends with 127 if the command cannot
// be executed. Any number of threads may exist. Throws Error, exit 6, if no process can be started.
pid_t start_child(const Command& command, const std::vector<Redirection>& redirections,
                  Group group);

// Replaces this process by the command, with an empty signal mask. Throws Error, exit 2, if it
// cannot be executed.
[[noreturn]] void become(const Command& command);

// A pipe that returns the output of a child process line by line. Not thread-safe.
class LinePipe {
 public:
  // `longest`: bytes of a line. Throws Error, exit 6, if there are no more descriptors.
  explicit LinePipe(size_t longest = 1 << 20);
  int reader() const { return reader_.get(); }  // descriptor for poll()
  int writer() const { return writer_.get(); }  // descriptor for the child
  bool over() const { return over_; }           // every writer has closed it
  void close_writer();                          // call it once the child has been started

  // Returns the next complete lines, without their newlines. Does not wait. One call takes all that
  // a full pipe holds. An incomplete line is returned only at the end of the stream, if `last`, or
  // if it is too long.
  std::vector<std::string> read_lines(bool last);

 private:
  LinePipe(std::pair<int, int> ends, size_t longest)
      : longest_(longest), reader_(ends.first), writer_(ends.second) {}

  const size_t longest_;
  Descriptor reader_, writer_;
  bool over_ = false;
  std::string unread_;
};

// A free TCP port for a child process. While the object exists, the system assigns the port to no
// process that requests any free port, and a server on this machine can take it only with
// SO_REUSEADDR.
class ReservedPort {
 public:
  ReservedPort();  // throws Error, exit 7
  int number() const { return number_; }

 private:
  Descriptor socket_;
  int number_;
};

}  // namespace bellows
