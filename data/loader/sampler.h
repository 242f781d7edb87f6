// Sampler: the samples of a rank in an epoch, in order. The order is a pure function of (seed,
// epoch), so a run can resume at any batch, with any number of workers.
#pragma once
#include "core/tensor/tensor.h"

namespace bellows {

class Visitor;

struct RankShare {
  int rank = 0, world = 1;
  // Index of the rank's i-th sample in the order of all samples. Wraps around, so that all ranks
  // have the same number.
  HD int64_t at(int64_t i, int64_t samples) const { return (i * world + rank) % samples; }
};

// Which samples an epoch has, and in which order.
struct SamplerOptions {
  int64_t batch_size = 64;  // per rank
  bool shuffle = true;
  bool drop_last = false;
  bool device_randperm = false;  // keyed permutation, in parallel, instead of a serial shuffle
};
void visit(Visitor& v, SamplerOptions& o);

// Step s of an epoch takes world * batch_size samples of the order, from s * world * batch_size
// on, and deals them to the ranks in turn. Every rank has the same number of batches: at the end
// of the order, ranks without a sample take one from its start. With drop_last, samples that do not
// fill a batch on every rank are left out instead.
class Sampler {
 public:
  // Throws Error(Exit::data) if there are no samples, or if drop_last leaves none.
  Sampler(int64_t samples, const SamplerOptions& options, uint64_t seed, RankShare share);
  int64_t size() const { return size_; }        // samples per epoch, of this rank
  int64_t batches() const { return batches_; }  // the last may be smaller
  Tensor order(int64_t epoch) const;            // (size()) i64, on the host
  // Order of all ranks' samples, (samples) i64; sample i of a rank is at share().at(i, samples).
  Tensor whole_order(int64_t epoch, Device device) const;
  const RankShare& share() const { return share_; }

 private:
  int64_t samples_, size_, batches_;
  SamplerOptions options_;
  uint64_t seed_;
  RankShare share_;
};

}  // namespace bellows
