#include "data/loader/sampler.h"
#include <algorithm>
#include <numeric>
#include "core/base/round.h"
#include "core/config/visitor.h"
#include "core/tensor/copy.h"
#include "core/tensor/rng.h"

namespace bellows {

void visit(Visitor& v, SamplerOptions& o) {
  v("batch_size", o.batch_size,
    "samples per step and rank; auto: doubled before training while that pays and fits",
    {.min = kAutoBatch, .max = 1 << 24, .auto_is_min = true});
  v("shuffle", o.shuffle, "a new random order in each epoch");
  v("drop_last", o.drop_last, "leave out the samples that do not fill a batch");
  v("device_randperm", o.device_randperm, "a keyed parallel permutation, not a serial shuffle");
}

Sampler::Sampler(int64_t samples, const SamplerOptions& options, uint64_t seed, RankShare share)
    : samples_(samples), options_(options), seed_(seed), share_(share) {
  CHECK(share.world >= 1 && share.rank >= 0 && share.rank < share.world, "rank ", share.rank,
        " of ", share.world);
  const int64_t batch = options.batch_size, world = share.world, joint = batch * world;
  CHECK(batch != kAutoBatch,
        "data.batch_size: auto is found by training; write a number, or train first and take the "
        "one in the run's plan.yaml");
  CHECK(batch >= 1, "data.batch_size ", batch, " is not positive");
  if (samples == 0) fail(Exit::data, "the data set is empty");
  const int64_t rounds = samples / joint, rest = samples % joint;
  share_.batch = batch;
  share_.full = size_ = rounds * batch;
  batches_ = rounds;
  last_joint_ = joint;
  const bool drop = options.drop_last || share.uneven == Uneven::drop;
  if (rest && !drop) {
    ++batches_;
    place_last(rounds * joint, rest);
  }
  if (size_ == 0)
    fail(Exit::data, options.drop_last ? "drop_last" : "dist.uneven: drop",
         " leaves nothing: ", samples, " samples do not fill a batch of ", batch, " on ",
         count_of(world, "rank"), "; make data.batch_size smaller");
}

// Takes this rank's part of the last `rest` samples, which begin at `first` of the order.
void Sampler::place_last(int64_t first, int64_t rest) {
  const int64_t world = share_.world, rank = share_.rank;
  if (share_.uneven == Uneven::pad) {
    const int64_t each = ceil_div(rest, world);
    share_.last = first + rank * each;
    size_ += each;
    last_joint_ = each * world;
    return;
  }
  const int64_t mine = rest / world + (rank < rest % world);
  share_.last = first + rank * (rest / world) + std::min(rank, rest % world);
  size_ += std::max<int64_t>(1, mine);
  last_joint_ = rest;
  last_weight_ = double(mine * world) / double(rest);
}

int64_t Sampler::joint_size(int64_t batch) const {
  return batch + 1 == batches_ ? last_joint_ : share_.batch * share_.world;
}

int64_t Sampler::joint_size() const {
  return (batches_ - 1) * share_.batch * share_.world + last_joint_;
}

Tensor Sampler::whole_order(int64_t epoch, Device device) const {
  if (options_.shuffle) {
    const RngKey key{.seed = seed_, .purpose = Purpose::shuffle, .step = uint64_t(epoch)};
    return randperm(samples_, key, device, !options_.device_randperm);
  }
  const Tensor all({samples_}, DType::i64);
  std::iota(all.ptr<int64_t>(), all.ptr<int64_t>() + samples_, 0);
  return to(device, all);
}

Tensor Sampler::order(int64_t epoch) const {
  const Tensor all = whole_order(epoch, Device::cpu);
  if (size_ == samples_ && share_.world == 1) return all;
  const Tensor mine({size_}, DType::i64);
  for (int64_t i = 0; i < size_; ++i)
    mine.ptr<int64_t>()[i] = all.ptr<int64_t>()[share_.at(i, samples_)];
  return mine;
}

}  // namespace bellows
