#include "data/loader/sampler.h"
#include <numeric>
#include "core/base/round.h"
#include "core/config/visitor.h"
#include "core/tensor/copy.h"
#include "core/tensor/rng.h"

namespace bellows {

void visit(Visitor& v, SamplerOptions& o) {
  v("batch_size", o.batch_size, "samples per step and rank", {.min = 1, .max = 1 << 24});
  v("shuffle", o.shuffle, "a new random order in each epoch");
  v("drop_last", o.drop_last, "leave out the samples that do not fill a batch");
  v("device_randperm", o.device_randperm, "a keyed parallel permutation, not a serial shuffle");
}

Sampler::Sampler(int64_t samples, const SamplerOptions& options, uint64_t seed, RankShare share)
    : samples_(samples), options_(options), seed_(seed), share_(share) {
  CHECK(share.world >= 1 && share.rank >= 0 && share.rank < share.world, "rank ", share.rank,
        " of ", share.world);
  const int64_t batch = options.batch_size;
  CHECK(batch >= 1, "data.batch_size ", batch, " is not positive");
  size_ = ceil_div(samples, share.world);
  if (options.drop_last) size_ = samples / (batch * share.world) * batch;
  batches_ = ceil_div(size_, batch);
  if (samples == 0) fail(Exit::data, "the data set is empty");
  if (size_ == 0)
    fail(Exit::data, "drop_last leaves nothing: ", samples, " samples do not fill a batch of ",
         batch, " on ", share.world, " ranks; make data.batch_size smaller");
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
  if (size_ == samples_) return all;
  const Tensor mine({size_}, DType::i64);
  for (int64_t i = 0; i < size_; ++i)
    mine.ptr<int64_t>()[i] = all.ptr<int64_t>()[share_.at(i, samples_)];
  return mine;
}

}  // namespace bellows
