// Recorder: records a window of the updates of a run, in memory.
#pragma once
#include <optional>
#include <semaphore>
#include <thread>
#include "autograd/op_log.h"
#include "labs/profile/recording.h"

namespace bellows {

class Session;
struct Position;

// Use it from the compute thread. On a GPU, it waits for the device when the window begins and
// ends.
class Recorder {
 public:
  // Records updates [first, last), first >= 1. The session must outlive this object.
  Recorder(const Session& session, int64_t first, int64_t last);
  ~Recorder();
  Recorder(Recorder&&) = delete;

  void end_at(int64_t last) { last_ = last; }  // the window becomes [first, last)
  void after_update(const Position& at);       // call it after each update
  Recording take();                            // call it once, after the window

 private:
  void start();
  void stop();
  void end_watch();
  void finish_device() const;

  const Session& session_;
  const int64_t first_;
  int64_t last_;
  Recording recording_;
  std::optional<OpLog> ops_;
  std::binary_semaphore window_over_{0};
  std::thread watch_;  // of the cores and threads, in the window
  int64_t begin_ns_ = 0;
};

}  // namespace bellows
