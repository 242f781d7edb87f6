// Which samples a rank sees in an epoch, and in which order: a pure function of (seed, epoch), so a
// run may be resumed at any batch, with any number of workers.
#pragma once
#include "core/tensor/tensor.h"

namespace bellows {

struct RankShare {
  int rank = 0, world = 1;
  // Where its i-th sample is in the order of all; the deal goes round until all have equally many.
  HD int64_t at(int64_t i, int64_t samples) const { return (i * world + rank) % samples; }
};

enum class Order {
  random,
  quasi_random,  // random pages, `window` of them at a time with their samples shuffled
};

struct SamplerOptions {
  int64_t batch_size = 64;  // of each rank
  bool shuffle = true;
  bool drop_last = false;
  bool device_randperm = false;  // the keyed permutation, in parallel, instead of a serial shuffle
  Order order = Order::random;   // of what is shuffled
  int64_t window = 64;           // pages
};

// Step s of the whole run takes the samples s * world * batch_size and on of the epoch's order,
// dealt out to the ranks in turn. Every rank gets the same number of batches: samples that are
// missing from the last deal are taken again from the order's start; drop_last instead leaves out
// whatever does not fill a batch on every rank.
//
// A quasi-random order is a function of the pages, too: at any time it is inside of `window` of
// them, so as much memory reads each page once. Without pages it is a random one. Counted as
// data.quasi_random_orders.
class Sampler {
 public:
  // `pages`: the first sample of each, Dataset::pages().
  Sampler(int64_t samples, const SamplerOptions& options, uint64_t seed, RankShare share,
          std::vector<int64_t> pages = {});
  int64_t size() const { return size_; }        // samples of an epoch, of this rank
  int64_t batches() const { return batches_; }  // the last may be smaller
  Tensor order(int64_t epoch) const;            // (size()) i64, on the host
  // Of the samples of all ranks, (samples) i64; position i of a rank is that at share().at(i).
  Tensor whole_order(int64_t epoch, Device device) const;
  const RankShare& share() const { return share_; }

 private:
  Tensor permutation(int64_t n, int64_t epoch, uint64_t site, Device device) const;
  Tensor quasi_random(int64_t epoch) const;

  int64_t samples_, size_, batches_;
  SamplerOptions options_;
  uint64_t seed_;
  RankShare share_;
  std::vector<int64_t> pages_;
};

}  // namespace bellows
