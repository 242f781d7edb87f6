#include "data/loader/sampler.h"
#include <algorithm>
#include <numeric>
#include "core/base/round.h"
#include "core/base/trace.h"
#include "core/config/visitor.h"
#include "core/tensor/copy.h"
#include "core/tensor/rng.h"

namespace bellows {

void visit(Visitor& v, SamplerOptions& o) {
  v("batch_size", o.batch_size,
    "samples per step and rank; auto: doubled before training while that pays and fits",
    {.min = kAutoBatch, .max = 1 << 24, .auto_is_min = true})
      .also({"batch", "bs", "per_device_train_batch_size", "samples_per_gpu", "train_batch_size"});
  v("shuffle", o.shuffle, "a new random order in each epoch");
  v("drop_last", o.drop_last, "leave out the samples that do not fill a batch");
  v("device_randperm", o.device_randperm, "a keyed parallel permutation, not a serial shuffle");
  v("length_buckets", o.length_buckets, {"off", "sorted", "buckets", "tokens"},
    "batches of samples of like length; tokens: of equal sums of lengths, too");
}

Sampler::Sampler(int64_t samples, const SamplerOptions& options, uint64_t seed, RankShare share,
                 std::span<const int64_t> lengths)
    : samples_(samples),
      options_(options),
      seed_(seed),
      share_(share),
      lengths_(lengths.begin(), lengths.end()) {
  CHECK(share.world >= 1 && share.rank >= 0 && share.rank < share.world, "rank ", share.rank,
        " of ", share.world);
  const int64_t batch = options.batch_size;
  CHECK(batch != kAutoBatch,
        "data.batch_size: auto is found by training; write a number, or train first and take the "
        "one in the run's plan.yaml");
  CHECK(batch >= 1, "data.batch_size ", batch, " is not positive");
  if (samples == 0) fail(Exit::data, "the data set is empty");
  if (lengths_.empty()) options_.length_buckets = LengthBuckets::off;
  options_.length_buckets == LengthBuckets::tokens ? cut_by_tokens() : cut_equally();
  if (batches_ == 0)
    fail(Exit::data, options.drop_last ? "drop_last" : "dist.uneven: drop",
         " leaves nothing: ", samples, " samples do not fill a batch of ", batch, " on ",
         count_of(share.world, "rank"), "; make data.batch_size smaller");
}

// ---- cuts

void Sampler::cut_equally() {
  const int64_t world = share_.world, batch = options_.batch_size, joint = batch * world;
  batches_ = samples_ / joint;
  last_joint_ = joint;
  for (int64_t i = 0; i < batches_ * world; ++i) cuts_.push_back(cuts_.back() + batch);
  const int64_t rest = samples_ % joint, each = ceil_div(rest, world);
  if (rest == 0 || options_.drop_last || share_.uneven == Uneven::drop) return;
  // The last, incomplete round. A rank without a sample takes one that does not count.
  const bool pad = share_.uneven == Uneven::pad;
  ++batches_;
  last_joint_ = pad ? each * world : rest;
  for (int64_t rank = 0; rank < world; ++rank) {
    const int64_t joined = std::max<int64_t>(1, rest / world + (rank < rest % world));
    cuts_.push_back(cuts_.back() + (pad ? each : joined));
  }
}

// Cuts the samples, sorted by length, where the sum of lengths reaches the next multiple of an
// equal share. Each batch has at least one sample.
void Sampler::cut_by_tokens() {
  const int64_t world = share_.world;
  batches_ = samples_ / (options_.batch_size * world);
  if (batches_ == 0) batches_ = samples_ >= world;
  const int64_t parts = batches_ * world;
  std::vector<int64_t> sorted = lengths_;
  std::ranges::sort(sorted);
  const double all = double(std::accumulate(sorted.begin(), sorted.end(), int64_t{0}));
  double sum = 0;
  int64_t at = 0;
  for (int64_t part = 1; part <= parts; ++part) {
    const int64_t most = samples_ - (parts - part);  // leaves a sample for each later part
    const double until = all * double(part) / double(parts);
    do {
      sum += double(sorted[at++]);
    } while (at < most && sum + 0.5 * double(sorted[at]) <= until);
    if (part == parts) at = samples_;
    fewest_ = part == 1 ? at : std::min(fewest_, at - cuts_.back());
    cuts_.push_back(at);
    longest_.push_back(sorted[at - 1]);
  }
  last_joint_ = cuts_.back() - cuts_[parts - world];
}

// ---- sizes

int64_t Sampler::size() const {
  int64_t size = 0;
  for (int64_t batch = 0; batch < batches_; ++batch) size += count(batch);
  return size;
}

int64_t Sampler::largest() const {
  int64_t most = 0;
  for (size_t i = 1; i < cuts_.size(); ++i) most = std::max(most, cuts_[i] - cuts_[i - 1]);
  return most;
}

int64_t Sampler::largest_area(const std::function<int64_t(int64_t)>& padded) const {
  int64_t area = 0;
  for (size_t i = 0; i < longest_.size(); ++i)
    area = std::max(area, (cuts_[i + 1] - cuts_[i]) * padded(longest_[i]));
  return area;
}

int64_t Sampler::joint_size(int64_t batch) const {
  if (batch + 1 == batches_) return last_joint_;
  return cuts_[(batch + 1) * share_.world] - cuts_[batch * share_.world];
}

int64_t Sampler::joint_size() const { return cuts_[(batches_ - 1) * share_.world] + last_joint_; }

int64_t Sampler::fewest(int64_t batch) const {
  if (options_.length_buckets != LengthBuckets::tokens) return joint_size(batch) / share_.world;
  return fewest_;
}

// With join the last batch has world * (samples of the rank) / (samples of all ranks).
double Sampler::weight(int64_t batch) const {
  if (batch + 1 < batches_ || share_.uneven != Uneven::join) return 1;
  const int64_t begin = first(batch) - cuts_[batch * share_.world];
  const int64_t mine = std::min(begin + count(batch), last_joint_) - std::min(begin, last_joint_);
  return double(mine * share_.world) / double(last_joint_);
}

// ---- orders

Tensor Sampler::order(int64_t epoch, Device device) const {
  Tensor all({samples_}, DType::i64);
  std::iota(all.ptr<int64_t>(), all.ptr<int64_t>() + samples_, 0);
  if (options_.shuffle) {
    const RngKey key{.seed = seed_, .purpose = Purpose::shuffle, .step = uint64_t(epoch)};
    all = randperm(samples_, key, device, !options_.device_randperm);
  }
  const int64_t taken = std::max(samples_, cuts_.back());
  if (taken == samples_) return to(device, all);
  const Tensor repeated({taken}, DType::i64, device);  // `all`, and its first samples again
  for (int64_t at = 0; at < taken; at += samples_) {
    const Shape part{std::min(samples_, taken - at)};
    copy_into(repeated.view(part, {1}, at), all.view(part, {1}, 0));
  }
  return repeated;
}

// Sorts the samples by length, in random order among equals. In a round of equal numbers of samples
// rank r takes every world-th, so that all ranks have like lengths.
Tensor Sampler::by_length(int64_t epoch) const {
  const bool sorted = options_.length_buckets == LengthBuckets::sorted;
  const Tensor order = this->order(sorted ? 0 : epoch, Device::cpu);
  const std::span<int64_t> all = order.data<int64_t>();
  std::ranges::stable_sort(all.first(samples_), {}, [&](int64_t i) { return lengths_[i]; });
  if (options_.length_buckets == LengthBuckets::tokens) return order;
  const int64_t world = share_.world, batch = options_.batch_size;
  std::vector<int64_t> round(world * batch);
  for (int64_t begin = 0; begin + world * batch <= samples_; begin += world * batch) {
    std::copy_n(&all[begin], world * batch, round.begin());
    for (int64_t i = 0; i < world * batch; ++i)
      all[begin + i] = round[i % batch * world + i / batch];
  }
  return order;
}

// The last round stays the last, because it may be incomplete.
void Sampler::shuffle_rounds(EpochPlan& plan, int64_t epoch) const {
  const RngKey key{.seed = seed_, .purpose = Purpose::shuffle, .site = 1, .step = uint64_t(epoch)};
  const Tensor rounds = randperm(std::max<int64_t>(1, batches_ - 1), key, Device::cpu, true);
  const Tensor order = empty_like(plan.order);
  const int64_t world = share_.world;
  std::vector<int64_t> cuts = {0};
  for (int64_t b = 0; b < batches_; ++b) {
    const int64_t from = (b + 1 < batches_ ? rounds.data<int64_t>()[b] : b) * world;
    std::copy_n(plan.order.ptr<int64_t>() + cuts_[from], cuts_[from + world] - cuts_[from],
                order.ptr<int64_t>() + cuts.back());
    for (int64_t r = 0; r < world; ++r)
      cuts.push_back(cuts.back() + cuts_[from + r + 1] - cuts_[from + r]);
  }
  plan = {order, std::move(cuts)};
}

EpochPlan Sampler::plan(int64_t epoch) const {
  if (options_.length_buckets == LengthBuckets::off) return {order(epoch, Device::cpu), cuts_};
  trace::count<"data.bucketed_batches">(batches_);
  EpochPlan plan = {by_length(epoch), cuts_};
  if (options_.length_buckets != LengthBuckets::sorted && options_.shuffle)
    shuffle_rounds(plan, epoch);
  return plan;
}

static Tensor part(const EpochPlan& plan, int64_t begin, int64_t end) {
  return plan.order.view({end - begin}, {1}, begin);
}

Tensor Sampler::samples(const EpochPlan& plan, int64_t batch, int rank) const {
  const int64_t i = batch * share_.world + rank;
  return part(plan, plan.cuts[i], plan.cuts[i + 1]);
}

Tensor Sampler::joint(const EpochPlan& plan, int64_t batch) const {
  const int64_t begin = plan.cuts[batch * share_.world];
  return part(plan, begin,
              batch + 1 == batches_ ? begin + last_joint_ : plan.cuts[(batch + 1) * share_.world]);
}

}  // namespace bellows
