// The time of the compute thread in a recording, as nested slices: updates, phases, modules, ops;
// and the time that the device worked for each.
#pragma once
#include <set>
#include "labs/profile/recording.h"

namespace bellows {

enum class SliceKind { update, phase, module, forward, backward, other };

inline constexpr const char* kBucketWait = "wait_for_buckets";  // the compute thread waits
// True of a bucket's all-reduce, by whichever thread runs it.
inline bool is_bucket(const trace::Event& span) { return span.name.starts_with("bucket "); }

struct Slice {
  std::string name, path;  // path: of the module
  SliceKind kind;
  int64_t begin_ns, end_ns;
  int parent = -1;         // index of the slice around it
  int64_t step = -1;       // number of the update
  int op = -1;             // index into Recording::ops, of a forward and of its backward
  std::string phase = {};  // outermost phase around it, or its own name; "" outside of phases
  int64_t self_ns = 0;     // its time without the slices in it
  int64_t work_ns = 0;     // device time of the work it queued; self_ns if no device was timed
  std::set<std::string> kernels = {};  // implementations of an op; none: the plain one

  int64_t ns() const { return end_ns - begin_ns; }
  // True if its own time is that of kernels: an op, the optimizer, or clearing gradients.
  bool computes() const;
};

// An interval of a slice, outside of the slices in it, in which nothing computes: the slice does
// not, or the device that was timed runs nothing.
struct Gap {
  int slice;
  int64_t begin_ns, end_ns;
};

struct Timeline {
  std::vector<Slice> slices;  // by begin, outer first
  std::vector<Gap> gaps;
  // For each of Recording::activities, the slice that queued it; -1: none of the compute thread.
  std::vector<int> queued_by = {};
};

// An op of the forward pass lasts from the end of the op before it, or the start of the range
// around it, until it is recorded. The backward of an op is the latest one of that name and module
// that has not yet run.
Timeline timeline_of(const Recording& recording);

// Cause of a gap: that of the innermost range around it that has one. "launch": the device waits
// for an op that queues its work.
std::string cause_of(const Timeline& timeline, int slice);

}  // namespace bellows
