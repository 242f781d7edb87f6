// Autotuning: which of several ways to compute the same is the fastest here, found by timing them.
// A Tuning lives beside what it chooses among, in a slot. What won is kept on disk.
#pragma once
#include <functional>
#include <optional>
#include <vector>
#include "core/tensor/tensor.h"

namespace bellows {

class DiskCache;

struct Candidate {
  std::string name;  // with its library's version: another one's is no longer found
  int64_t workspace_bytes = 0;
  std::function<void()> run;  // on the current stream; twice is as good as once
};
using Candidates = std::vector<Candidate>;

class Tuning {
 public:
  // Asked before each run: is there something to find out? Counts autotune.hits, runs of what was
  // chosen, and autotune.misses, runs without a choice though one was asked for.
  bool due();

  // Takes what is kept on disk for the problem, or else, under Autotune::benchmark, the fastest of
  // all candidates, and keeps that. find("") gives all of them, find(name) that one or none. The
  // result is a place in what `find` gave last; nothing: the heuristic has to do.
  using Find = std::function<Candidates(const std::string& name)>;
  std::optional<size_t> make(Device device, const std::string& problem, const Find& find);
  std::optional<size_t> make(Device device, const std::string& problem, const Find& find,
                             DiskCache& cache);

 private:
  bool looked_up_ = false, made_ = false;
};

// The place of the fastest, of those that run at all, each in the workspace that KernelOptions
// grant: runs in turns, after a warm-up, with cold caches.
std::optional<size_t> fastest(Device device, const Candidates& candidates);

// By the median time; of equals (1 %) the one with the smallest workspace.
struct TimedCandidate {
  size_t place;
  int64_t workspace_bytes;
  std::vector<double> ms = {};
};
std::optional<size_t> winner(std::vector<TimedCandidate> timed);

// The machine that plans are good for: "NVIDIA H200, driver 580.82.07".
std::string tuned_machine(Device device);

// What a choice depends on: of a tensor all but its content and its address.
struct Signature {
  explicit Signature(const Tensor& t)
      : shape(t.shape()), strides(t.strides()), dtype(t.dtype()), defined(t.defined()) {}
  Shape shape;
  Strides strides;
  DType dtype;
  bool defined;
  bool operator==(const Signature&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Signature& signature);

}  // namespace bellows
