// Recording: what happened in a window of updates: ranges of every thread, the ops of the forward
// pass, allocations, the load of the cores, and what a GPU ran.
#pragma once
#include <map>
#include <optional>
#include <string>
#include "core/base/trace.h"
#include "core/device/device.h"
#include "labs/profile/activity.h"
#include "ops/base/work.h"

namespace bellows {

struct StepTime {
  int64_t number;            // of the update, from 0
  int64_t begin_ns, end_ns;  // from the end of the update before it
  int64_t ns() const { return end_ns - begin_ns; }
};

// Load of a core during an interval, from all processes.
struct CoreLoad {
  int core;
  int64_t begin_ns, end_ns;  // by trace::now_ns()
  double busy;               // share of that time, 0 to 1
};

// Time of a thread, as the kernel's scheduler counts it. The rest of the interval is spent waiting
// for something else: data, a lock, another thread.
struct ThreadLoad {
  uint64_t thread = 0;
  int64_t begin_ns = 0, end_ns = 0;  // by trace::now_ns()
  int64_t running_ns = 0;            // on a core
  int64_t runnable_ns = 0;           // ready, but without a core
};

struct Recording {
  std::vector<StepTime> steps;
  std::vector<trace::Event> spans;
  std::vector<RecordedOp> ops;                 // in the order of the forward passes
  std::vector<trace::KernelRun> kernels = {};  // those that are not plain
  uint64_t thread = 0;                         // the compute thread's
  std::map<uint64_t, std::string> threads;
  std::vector<CoreLoad> cores;
  std::vector<ThreadLoad> thread_loads;  // empty if the kernel has no schedstat
  std::vector<trace::Allocation> allocations;
  // Bytes in use when the window began: by module, "weights" outside of modules, "optimizer state",
  // "other".
  std::map<std::string, int64_t> held;
  Cost update;  // work of the optimizer in an update
  Device device = Device::cpu;
  // Work of the device, by begin. Absent on the CPU, where the spans have the times, and without
  // CUPTI.
  std::optional<std::vector<Activity>> activities = {};
};
// True if a device ran the updates and could not be timed, so only the host's times are known.
inline bool on_host(const Recording& recording) {
  return recording.device != Device::cpu && !recording.activities;
}

}  // namespace bellows
