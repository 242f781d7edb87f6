// Forecast of an update on many ranks, from the times at which gradients become ready on one, for
// `trainer plan`. Times are in seconds.
#pragma once
#include "dist/buckets.h"
#include "plan/plan.h"

namespace bellows {

struct Link {
  double latency_s = 0;    // latency per message, processing included
  double bytes_per_s = 0;  // in each direction, both at once
};
enum class ReduceAlgorithm { ring, tree, faster };
struct Network {
  Link between, inside;        // machines
  int64_t ranks_per_node = 1;  // ranks on each machine
  ReduceAlgorithm algorithm = ReduceAlgorithm::faster;
};

// Time of an all_reduce over n ranks on m machines of g ranks each (m g = n); 0 for one rank.
//   ring: 2 (n - 1) hops, 2 (m - 1) of them between machines. A rank sends bytes / n in each:
//         latencies of the hops + 2 (n - 1) / n bytes / bandwidth
//         (Patarasuk and Yuan, JPDC 2009)
//   tree: two binary trees over the machines, one for each half of the bytes, in pieces that follow
//         each other; a chain inside a machine: 2 (g - 1) and 2 ceil(log2 m) hops,
//         latencies of the hops + 2 bytes / bandwidth
//         (Sanders, Speck and Traff, Parallel Computing 2009)
// The bandwidth is that of the slowest link used.
double all_reduce_s(double bytes, int64_t ranks, const Network& network);

struct GradientTime {
  GradientSize size;
  double ready_s;  // since the update began
};
// An update of one rank alone.
struct ComputeProfile {
  std::vector<GradientTime> gradients;  // ascending ready_s; backward ends with the last one
  double step_s = 0;
  double bytes() const;  // size of all gradients
};
// Trains `updates` updates on the first batch, on one rank and without saving anything. Times are
// medians, by the device's clock. A gradient that backward does not reach is ready at its end,
// because the reducer then sends zeros. Throws Error as Session does, and exit 2 on more than one
// rank.
ComputeProfile measure_profile(Plan plan, int64_t updates);

struct BucketTime {
  double ready_s, begin_s, end_s;  // last gradient ready; collective begins and ends
};
struct Forecast {
  std::vector<BucketTime> buckets;
  double step_s = 0;
  double communication_s = 0;  // sum over all buckets
  double exposed_s = 0;        // from the end of backward to the end of the last bucket
  // True if the last bucket has to wait for earlier ones, so backward can hide no more.
  bool queued() const {
    return !buckets.empty() && buckets.back().begin_s > buckets.back().ready_s;
  }
};
// Simulates the reducer: one collective at a time, in the order of plan_buckets(). options.overlap:
// a bucket leaves as soon as it is ready; options.compress: f32 travels in two bytes. Neglects
// copies, casts, late ranks, and that communication slows computation.
Forecast forecast(const ComputeProfile& profile, const DistOptions& options, int64_t ranks,
                  const Network& network);

// Returns the capacities to compare, in MiB: powers of two, the last one for all gradients of the
// profile.
std::vector<double> bucket_ladder(const ComputeProfile& profile);
// Returns the capacity with the shortest step, the largest of equal ones.
double best_bucket_mb(const ComputeProfile& profile, DistOptions options, int64_t ranks,
                      const Network& network);
// Returns the smallest number of ranks, up to `most`, at which buckets queue; 0 if there is none.
int64_t overlap_ends(const ComputeProfile& profile, const DistOptions& options, int64_t most,
                     const Network& network);

}  // namespace bellows
