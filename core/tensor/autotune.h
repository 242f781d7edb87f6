// Autotuning: finds the fastest of several implementations on this machine by timing them. A Tuning
// lives in a Slot, next to what it chooses for. The choice is kept on disk.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>
#include "core/device/device.h"

namespace bellows {

class DiskCache;
class Tensor;

struct Candidate {
  std::string name;  // kept on disk; with its library's version unless `problem` has it
  int64_t workspace_bytes = 0;
  std::function<void()> run;  // runs on the current stream; idempotent
};
using Candidates = std::vector<Candidate>;

class Tuning {
 public:
  // Returns true if make() should run before this use. Otherwise counts autotune.hits (runs of the
  // choice) or autotune.misses (runs without a choice although autotuning is on).
  bool due();

  // Chooses the candidate that is kept on disk for `problem`. If there is none, under
  // Autotune::benchmark, chooses the fastest of all candidates and keeps it. find("") returns all
  // of them, find(name) that one or none. Returns an index into the last result of `find`, or
  // nullopt to use the heuristic.
  using Find = std::function<Candidates(const std::string& name)>;
  std::optional<size_t> make(Device device, const std::string& problem, const Find& find);
  std::optional<size_t> make(Device device, const std::string& problem, const Find& find,
                             DiskCache& cache);

 private:
  bool looked_up_ = false, made_ = false, found_ = false;  // found_: a candidate was chosen
};

// Compares the results of a candidate with those of the plain implementation, pairwise. Returns ""
// if they are equal but for rounding, else how far apart they are; nullopt if plain ones are NaN or
// Inf, which shows nothing. Shapes may differ in axes of length 1. Waits for the device.
std::optional<std::string> difference(const std::vector<Tensor>& got,
                                      const std::vector<Tensor>& plain);

// Returns true if this thread's search has used its kernels.search_seconds. The search then ends as
// soon as one candidate has been timed.
bool search_time_is_up();

// Returns the index of the fastest candidate, among those that run and fit in the workspace limit
// of KernelOptions. After a warm-up, their runs are interleaved, with cold caches.
std::optional<size_t> fastest(Device device, const Candidates& candidates);

// winner() compares median times. Among those within 1 %, the smallest workspace wins.
struct TimedCandidate {
  size_t place;
  int64_t workspace_bytes;
  std::vector<double> ms = {};
};
std::optional<size_t> winner(std::vector<TimedCandidate> timed);

// Returns the machine that choices are valid for: "NVIDIA H200, driver 580.82.07".
std::string tuned_machine(Device device);

}  // namespace bellows
