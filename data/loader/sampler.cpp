#include "data/loader/sampler.h"
#include <numeric>
#include "core/base/round.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "core/tensor/rng.h"

namespace bellows {

Sampler::Sampler(int64_t samples, const SamplerOptions& options, uint64_t seed, RankShare share,
                 std::vector<int64_t> pages)
    : samples_(samples), options_(options), seed_(seed), share_(share), pages_(std::move(pages)) {
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

Tensor Sampler::permutation(int64_t n, int64_t epoch, uint64_t site, Device device) const {
  const RngKey key{
      .seed = seed_, .purpose = Purpose::shuffle, .site = site, .step = uint64_t(epoch)};
  return randperm(n, key, device, !options_.device_randperm);
}

// For each window, collects the samples of its pages and shuffles them among each other.
Tensor Sampler::quasi_random(int64_t epoch) const {
  static trace::Counter& orders = trace::counter("data.quasi_random_orders");
  orders.add();
  if (pages_.empty()) return permutation(samples_, epoch, 0, Device::cpu);
  const int64_t pages = std::ssize(pages_);
  const auto end_of = [&](int64_t page) { return page + 1 < pages ? pages_[page + 1] : samples_; };
  const Tensor of_pages = permutation(pages, epoch, 0, Device::cpu);
  const Tensor all({samples_}, DType::i64);
  int64_t* next = all.ptr<int64_t>();
  for (int64_t first = 0; first < pages; first += options_.window) {
    std::vector<int64_t> inside;
    for (int64_t i = first; i < std::min(first + options_.window, pages); ++i) {
      const int64_t page = of_pages.ptr<int64_t>()[i];
      for (int64_t sample = pages_[page]; sample < end_of(page); ++sample) inside.push_back(sample);
    }
    const Tensor places = permutation(std::ssize(inside), epoch, 1 + first, Device::cpu);
    for (const int64_t place : places.data<int64_t>()) *next++ = inside[place];
  }
  return all;
}

Tensor Sampler::whole_order(int64_t epoch, Device device) const {
  if (options_.shuffle && options_.order == Order::quasi_random)
    return to(device, quasi_random(epoch));
  if (options_.shuffle) return permutation(samples_, epoch, 0, device);
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
