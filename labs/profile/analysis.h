// A recording as tables: phases, ops and modules, slow calls, gaps, and memory. They are printed as
// text or JSON, and the whole recording as a trace.
#pragma once
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "labs/profile/timeline.h"

namespace bellows {

class Session;

// Measured rates: on a CPU those of multiply-adds in registers of all threads, and of a triad past
// the caches; on a GPU those of large products, and of a copy on the device.
struct Ceilings {
  double f32 = 0, bf16 = 0;  // FLOP/s; 0: unknown, or a CPU that has no bf16
  double bytes_per_s = 0;
  // Shortest time for that work; 0 if nothing is known of it.
  double seconds(const Cost& work, DType dtype) const;
};
// Measures for a second or two. With `tf32`, products in f32 on a GPU round their operands to TF32.
Ceilings ceilings_of(Device device, bool tf32);

StepTime median_step(const Recording& recording);
// Returns lists of the time ranges of an update, {name, begin_ns, ns, module, backward}: phases,
// ops, gaps with the names of their causes, and on several ranks waits for buckets and buckets on
// their way. begin_ns counts from its begin.
Json lanes_of(const Timeline& timeline, const Recording& recording, const StepTime& step);
// The same of the update of median length, with the bytes in use from each time on.
Json typical_update(const Timeline& timeline, const Recording& recording);

// Returns the report of a recording, "kind": "profile". Times are in seconds, sizes in bytes,
// shares from 0 to 1; the largest row of a list is the first:
//   times            source of the times of ops, modules and outliers: "self time" on a CPU, else
//                    "time on the device", or "time on the host" if no device could be timed
//   update_s         mean time of an update, everything included; batch_cost_s: without log lines
//   flop, bytes      of an update, as its ops state them
//   mfu              model FLOP utilization: flop over what update_s could compute; null: unknown
//   phases           per update, with the device time of the work that a phase queued
//   ops_by_operands  calls that are alike: an op in one direction with its operands; ops: by op
//                    alone. s: of all calls; of_ceiling: share of the least time for that work
//   modules          per update, without the modules inside
//   outliers         calls further than 3 median absolute deviations (MAD) from the median of calls
//                    with the same operands
//   gaps             time of the compute thread in which none of its ops runs; if a device was
//                    timed, in which the device runs nothing. in: the innermost range around it,
//                    "loop" between updates
//   thread_states    shares of the time of a thread; runnable: ready, but without a core. Threads
//                    that ended before the window did are left out
//   memory           when most bytes were in use. held: since before the window; tensors: taken
//                    since by ops of the module
Json analyze(const Recording& recording, const Ceilings& ceilings);
std::string text_of(const Json& report);  // 80 columns

// Returns the recording in the format of PyTorch's profiler (Kineto), for Perfetto,
// chrome://tracing and HolisticTraceAnalysis. Times are in microseconds since the begin of the
// window. A flow connects each op with its backward.
Json chrome_trace(const Recording& recording);

// ---- several ranks (labs/profile/ranks.cpp)

// On rank 0: the parts of all ranks, by rank; null in a world of one. The other ranks send theirs
// and return null. A part has lanes_of() one update, the same on all ranks, the time of the
// buckets' all-reduce per update, and how much of it the compute thread waited for ("exposed_s").
// Its "begin_ns" counts from the begin of the earliest rank on rank 0's host. The clock of another
// host is unknown, so the update of such a rank begins at 0. Waits for each rank as long as
// dist.timeout_s.
Json gather_ranks(const Session& session, const Recording& recording);
// A table of the all-reduce, and that update as a picture of at most 80 columns.
std::string ranks_text(const Json& ranks);

}  // namespace bellows
