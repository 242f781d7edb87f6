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

// Leads a process group of its own. Not thread-safe.
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
  void reap();              // after has_exited(); kills what is left of the group

  int64_t rank() const { return command_.rank; }
  int code() const { return code_; }  // after reap(): exit code, or 128 + signal if one ended it
  bool signaled() const { return signaled_; }

  void watch(std::vector<pollfd>& all) const;  // adds what becomes readable when it has news
  void read_output();             // once more after reap(), for what the pipes still hold
  void print_last_lines() const;  // to stderr

 private:
  struct Stream {
    explicit Stream(void (*print)(std::string_view)) : print(print) {}
    LinePipe pipe;
    void (*print)(std::string_view line);
  };
  void add_line(const Stream& from, const std::string& line);
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
