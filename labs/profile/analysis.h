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

struct PhaseRow {
  std::string name;
  double s = 0, share = 0;  // per update; of all phases
  double device_s = 0;      // device time of the work it queued, per update; 0 if not timed
};

// Calls that are alike: an op in one direction, with its operands.
struct OpKey {
  std::string op;
  bool backward = false;
  std::string shapes, dtype, layout;  // "64x3x32x32 16x3x3x3 -> 64x16x32x32", "f32", "nhwc"
  auto operator<=>(const OpKey&) const = default;
};
struct OpRow {
  OpKey key;
  int64_t calls = 0;
  // Self time of all calls; on a device that was timed, the time of the work they queued there.
  // `share` is of all updates.
  double s = 0, share = 0;
  Cost work = {};                      // of all calls, as the op states it
  double ceiling_s = 0;                // least time for that work; 0: unknown
  double flop_s = 0;                   // least time for its FLOP alone; 0: unknown
  std::set<std::string> kernels = {};  // that ran it; none: the plain one
  std::string kernel() const;          // "winograd", "plain"
  double mean_s() const { return s / double(calls); }
};

struct ModuleRow {
  std::string path;
  double forward_s = 0, backward_s = 0, share = 0;  // per update, without the modules inside
};

// A call further from the median of its key than 3 median absolute deviations (MAD).
struct Outlier {
  OpKey key;
  std::string path;
  int64_t step;
  double s, median_s, mad_s;
};

// Time of the compute thread in which none of its ops runs; if a device was timed, time in which
// the device runs nothing, by what that thread does meanwhile.
struct GapRow {
  std::string cause;        // "input", "sync", "lock", "launch" (a device only), "host"
  std::string range, path;  // innermost range around it, and its module; "loop": between updates
  int64_t count = 0;
  double s = 0, share = 0;  // per update
  double longest_s = 0;
  int64_t longest_step = 0;
};

// Shares of the time of a thread, which add up to 1. Threads that ended before the window did are
// left out.
struct ThreadRow {
  uint64_t id = 0;
  std::string name = {};
  double running = 0, runnable = 0, waiting = 0;  // runnable: ready, but without a core
};

// Bytes in use when most were.
struct MemoryRow {
  std::string module;
  int64_t held = 0;     // since before the window: weights, "optimizer state", "other"
  int64_t tensors = 0;  // taken since by ops of the module: activations and gradients
  int64_t bytes() const { return held + tensors; }
};

const StepTime& median_step(const Recording& recording);
// Returns lists of the time ranges of an update, {name, begin_ns, ns, module, backward}: phases,
// ops, gaps with the names of their causes, and on several ranks waits for buckets and buckets on
// their way. begin_ns counts from its begin.
Json lanes_of(const Timeline& timeline, const Recording& recording, const StepTime& step);
// The same of the update of median length, with the bytes in use from each time on.
// `peak_bytes`: most that were in use in the whole recording.
Json typical_update(const Timeline& timeline, const Recording& recording, int64_t peak_bytes);

// Source of the times of ops, modules and slow calls: self time on a CPU, time on a device, or self
// time of the host beside a device that could not be timed.
enum class Timed : uint8_t { cpu, device, host };

struct Profile {
  Timed timed = Timed::cpu;
  int64_t first = 0, updates = 0;
  double update_s = 0;      // mean time of an update, everything included
  double batch_cost_s = 0;  // the same without log lines and the like, as a run prints it
  Cost work = {};           // per update, as its ops state it
  double mfu = 0;           // model FLOP utilization: work.flop over what update_s could compute
  std::vector<PhaseRow> phases;
  std::vector<OpRow> ops;    // by key, longest first
  std::vector<OpRow> kinds;  // the same by op alone
  std::vector<ModuleRow> modules;
  std::vector<Outlier> outliers;  // furthest first
  std::vector<GapRow> gaps;
  std::vector<ThreadRow> threads;  // the one that ran longest first; empty if unknown
  std::vector<MemoryRow> memory;
  int64_t peak_step = 0, peak_bytes = 0;
  Json typical;
  double waited_share = 0;  // of the time, the compute thread was ready and had no core
};
Profile analyze(const Recording& recording, const Ceilings& ceilings);

std::string text_of(const Profile& profile, const Ceilings& ceilings);  // 80 columns
// All rows; times in seconds, sizes in bytes, shares from 0 to 1.
Json json_of(const Profile& profile, const Ceilings& ceilings);

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
