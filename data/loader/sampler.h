// Sampler: which samples the ranks take in an epoch, and in which order. An epoch is a list of
// rounds; in each round every rank takes one batch. All of it is a pure function of (seed, epoch),
// so a run can resume at any batch, with any number of workers.
#pragma once
#include <functional>
#include <span>
#include "core/tensor/tensor.h"

namespace bellows {

class Visitor;

// Treatment of the last samples of an epoch if they do not fill a batch on each rank.
enum class Uneven {
  drop,  // the last, incomplete round of batches is left out
  pad,   // adds samples from the beginning of the epoch, so all ranks have the same number
  join,  // ranks may have fewer samples or none; means count existing samples only
};

struct RankShare {
  int rank = 0, world = 1;
  Uneven uneven = Uneven::pad;
};

// Rules that put samples of varying length into batches (the toggle length_buckets).
enum class LengthBuckets {
  off,      // samples in random order
  sorted,   // from the shortest to the longest, in the same order in each epoch
  buckets,  // each round has samples of similar length; rounds in random order
  tokens,   // as buckets, and all batches have about the same sum of lengths
};

// Value of batch_size for "auto": trainer/run/auto_batch.cpp replaces it.
constexpr int64_t kAutoBatch = 0;

// Selects the samples of an epoch and their order.
struct SamplerOptions {
  int64_t batch_size = 64;  // samples per rank; with LengthBuckets::tokens the average
  bool shuffle = true;
  bool drop_last = false;
  bool device_randperm = false;  // keyed permutation, in parallel, instead of a serial shuffle
  LengthBuckets length_buckets = LengthBuckets::off;
};
void visit(Visitor& v, SamplerOptions& o);

// The samples of all ranks in one epoch, round by round and within a round rank by rank. Batch b of
// rank r is order[cuts[b * world + r], cuts[b * world + r + 1]).
struct EpochPlan {
  Tensor order;  // i64, on the host
  std::vector<int64_t> cuts;
};

// All ranks have the same number of batches. Fewer than world * batch_size samples may remain at
// the end of the order. They are distributed by share.uneven:
// - pad: all ranks take the same number. Ranks that lack one take it from the start of the order.
// - join: the first ranks take one more than the others. A rank without a sample takes one whose
//   weight is 0.
// - drop, or drop_last: they are left out.
// With LengthBuckets::tokens none remain.
class Sampler {
 public:
  // lengths: length of each sample; empty if all are equal, which turns length_buckets off. Throws
  // Error(Exit::data) if there are no samples, or if none are left.
  Sampler(int64_t samples, const SamplerOptions& options, uint64_t seed, RankShare share,
          std::span<const int64_t> lengths = {});
  int64_t batches() const { return batches_; }  // per epoch
  // Samples of this rank in a batch, and where they begin in order(); not for LengthBuckets that
  // reorder the rounds.
  int64_t first(int64_t batch) const { return cuts_[batch * share_.world + share_.rank]; }
  int64_t count(int64_t batch) const {
    return cuts_[batch * share_.world + share_.rank + 1] - first(batch);
  }
  int64_t size() const;  // samples of this rank in an epoch
  // Samples of the largest batch of any rank. With LengthBuckets::tokens, largest_area() is the
  // largest number of positions of a batch, given the length to which samples are padded.
  int64_t largest() const;
  int64_t largest_area(const std::function<int64_t(int64_t)>& padded) const;
  int64_t joint_size(int64_t batch) const;  // samples of all ranks in a round
  int64_t joint_size() const;               // samples of all ranks in an epoch
  // Fewest samples that a rank has in the round; with LengthBuckets::tokens, in any round.
  int64_t fewest(int64_t batch) const;
  // Returns the weight of the mean over this rank's batch in the mean over the ranks.
  double weight(int64_t batch) const;

  // Returns the order of the epoch for all ranks, on a device.
  Tensor order(int64_t epoch, Device device) const;
  EpochPlan plan(int64_t epoch) const;
  // Views of a plan: the samples of this or another rank in a batch, and all samples that count in
  // its round.
  Tensor samples(const EpochPlan& plan, int64_t batch) const {
    return samples(plan, batch, share_.rank);
  }
  Tensor samples(const EpochPlan& plan, int64_t batch, int rank) const;
  Tensor joint(const EpochPlan& plan, int64_t batch) const;

  const RankShare& share() const { return share_; }
  LengthBuckets length_buckets() const { return options_.length_buckets; }

 private:
  void cut_equally();
  void cut_by_tokens();
  Tensor by_length(int64_t epoch) const;
  void shuffle_rounds(EpochPlan& plan, int64_t epoch) const;

  int64_t samples_, batches_ = 0;
  SamplerOptions options_;
  uint64_t seed_;
  RankShare share_;
  std::vector<int64_t> lengths_;
  std::vector<int64_t> cuts_ = {0};  // as in EpochPlan
  // With LengthBuckets::tokens: longest length of each part between cuts, and the fewest samples.
  std::vector<int64_t> longest_;
  int64_t fewest_ = 0;
  int64_t last_joint_ = 0;  // samples of all ranks that count in the last round
};

}  // namespace bellows
