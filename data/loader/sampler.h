// Sampler: the samples of a rank in an epoch, in order. The order is a pure function of (seed,
// epoch), so a run can resume at any batch, with any number of workers.
#pragma once
#include <limits>
#include "core/tensor/tensor.h"

namespace bellows {

class Visitor;

// Treatment of the last samples of an epoch if they do not fill a batch on each rank.
enum class Uneven {
  drop,  // the last, incomplete round of batches is left out
  pad,   // adds samples from the beginning of the epoch, so all ranks have the same number
  join,  // ranks may have fewer samples or none; means count existing samples only
};

// Part of the samples that a rank takes. Round b of an epoch is a batch of every rank: samples
// [b * world * batch, (b + 1) * world * batch) of the order, of which each rank takes a block. So
// it has the samples of one rank with the joint batch.
struct RankShare {
  int rank = 0, world = 1;
  Uneven uneven = Uneven::pad;
  // Set by Sampler: samples per batch, how many of the rank's samples are in complete rounds, and
  // where its block of the last, incomplete round begins.
  int64_t batch = 1, full = std::numeric_limits<int64_t>::max(), last = 0;

  // Index of the rank's i-th sample in the order of all samples. Wraps around.
  HD int64_t at(int64_t i, int64_t samples) const {
    const int64_t joint =
        i < full ? (i / batch * world + rank) * batch + i % batch : last + i - full;
    return joint % samples;
  }
};

// Value of batch_size for "auto": trainer/run/auto_batch.h replaces it.
constexpr int64_t kAutoBatch = 0;

// Selects the samples of an epoch and their order.
struct SamplerOptions {
  int64_t batch_size = 64;  // per rank
  bool shuffle = true;
  bool drop_last = false;
  bool device_randperm = false;  // keyed permutation, in parallel, instead of a serial shuffle
};
void visit(Visitor& v, SamplerOptions& o);

// All ranks have the same number of batches. Fewer than world * batch_size samples may remain at
// the end of the order. They are distributed by share.uneven:
// - pad: all ranks take the same number. Ranks that lack one take it from the start of the order.
// - join: the first ranks take one more than the others. A rank without a sample takes one whose
//   weight is 0.
// - drop, or drop_last: they are left out.
class Sampler {
 public:
  // Throws Error(Exit::data) if there are no samples, or if none are left.
  Sampler(int64_t samples, const SamplerOptions& options, uint64_t seed, RankShare share);
  int64_t size() const { return size_; }        // samples per epoch, of this rank
  int64_t batches() const { return batches_; }  // the last may be smaller
  // Weight of the mean over this rank's batch in the mean over the ranks. 1, but with join the last
  // batch has world * (samples of the rank) / (samples of all ranks).
  double weight(int64_t batch) const { return batch + 1 == batches_ ? last_weight_ : 1; }
  int64_t joint_size(int64_t batch) const;  // samples of all ranks in that round
  int64_t joint_size() const;               // samples of all ranks in an epoch
  Tensor order(int64_t epoch) const;        // (size()) i64, on the host
  // Order of all ranks' samples, (samples) i64; sample i of a rank is at share().at(i, samples).
  Tensor whole_order(int64_t epoch, Device device) const;
  const RankShare& share() const { return share_; }

 private:
  void place_last(int64_t first, int64_t rest);

  int64_t samples_, size_, batches_;
  int64_t last_joint_;      // samples of all ranks in the last round
  double last_weight_ = 1;  // weight of this rank's part of it
  SamplerOptions options_;
  uint64_t seed_;
  RankShare share_;
};

}  // namespace bellows
