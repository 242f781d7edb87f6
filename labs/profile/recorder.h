// Recorder: records a window of the updates of a run, in memory.
#pragma once
#include <optional>
#include <semaphore>
#include <thread>
#include "autograd/op_log.h"
#include "labs/profile/recording.h"
#include "trainer/log/meter.h"

namespace bellows {

class Session;
struct Position;

// Watches how busy the cores are, and what the threads of this process do: a thread of its own
// reads /proc, for the cores every 20 ms, for the threads every 100 ms. The system counts in ticks
// of up to 10 ms, so one value may be wrong by a few tenths, but hardly their mean.
class CoreWatch {
 public:
  // Adds loads to `recording` until it is destroyed.
  explicit CoreWatch(Recording& recording);
  ~CoreWatch();
  CoreWatch(CoreWatch&&) = delete;

 private:
  struct Seen {
    int64_t at_ns = 0;
    CpuTicks ticks = {};
  };
  void read_cores();
  void read_threads();

  Recording& recording_;
  const std::vector<int> cores_;
  std::map<int, Seen> seen_;
  std::map<uint64_t, ThreadLoad> threads_;  // totals of each thread, up to its last reading
  std::binary_semaphore stop_{0};
  std::thread thread_;
};

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
  void finish_device() const;

  const Session& session_;
  const int64_t first_;
  int64_t last_;
  Recording recording_;
  std::optional<OpLog> ops_;
  std::optional<CoreWatch> watch_;  // of the window
  int64_t begin_ns_ = 0;
};

}  // namespace bellows
