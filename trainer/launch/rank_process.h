// RankProcess: one rank of a launch as its parent sees it.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include "trainer/launch/child.h"
#include "trainer/launch/line_pipe.h"

struct pollfd;

namespace bellows {

struct RankCommand {
  int64_t rank;
  Command command;
};

enum class RankOutput {
  ours,    // stdout and stderr are this process's own
  kept,    // the last 20 lines are kept
  prefix,  // lines are printed with "[rank] " before them, and the last 20 are kept
};

// A process that leads its own process group. Not thread-safe.
class RankProcess {
 public:
  // `command` must outlive the object. Nothing is started yet.
  RankProcess(const RankCommand& command, RankOutput output);
  ~RankProcess();  // kills the group
  RankProcess(RankProcess&&) = delete;

  void start();                 // throws Error, exit 6
  void send(int signal) const;  // to the group; no effect before start() and after reap()
  bool running() const { return process_ > 0; }
  bool has_exited() const;  // true until reap()
  void reap();              // call after has_exited(); kills the rest of the group

  int64_t rank() const { return command_.rank; }
  int code() const { return code_; }  // after reap(): exit code, or 128 + signal if one ended it
  bool signaled() const { return signaled_; }

  void watch(std::vector<pollfd>& all) const;  // adds descriptors that an event makes readable
  void read_output();                          // call again after reap(), for the rest in the pipes
  void print_last_lines() const;               // to stderr

 private:
  struct Stream {
    explicit Stream(void (*print)(std::string_view)) : print(print) {}
    LinePipe pipe;
    void (*print)(std::string_view line);
  };
  std::string prefixed(const std::string& line) const;

  const RankCommand& command_;
  RankOutput output_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::deque<std::string> last_lines_;
  pid_t process_ = -1;
  std::optional<Descriptor> end_;  // readable once the process has exited
  int code_ = 0;
  bool signaled_ = false;
};

}  // namespace bellows
