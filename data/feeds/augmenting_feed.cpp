// augmenting_feed: runs kernels::augment on batches of bytes, which another feed or (on the CPU)
// the loader delivers.
//
// resident_feed: runs it on all samples, which stay on the device beside the epoch's order, so that
// batches need no copies. With device_randperm the order is also computed there. kernels::collate
// gathers the batches of samples that are not images.
#include <cstring>
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "data/feeds/augment.h"
#include "data/feeds/device_feed.h"
#include "data/sets/damaged.h"

namespace bellows {

namespace {

class AugmentingFeed : public Feed {
 public:
  // `samples`: the whole data set; undefined if batches come from `bytes` or the loader.
  AugmentingFeed(Device device, Loader& loader, DType images, const Batch& samples,
                 std::unique_ptr<Feed> bytes = nullptr)
      : device_(device),
        loader_(loader),
        samples_(samples),
        bytes_(std::move(bytes)),
        from_(samples.x.defined() ? nullptr
              : bytes_            ? bytes_.get()
                                  : &loader),
        buffers_(model_buffers_on(device, loader, images)) {}

  void start(int64_t epoch, int64_t first_batch) override {
    CHECK(first_batch >= 0 && first_batch <= loader_.batches(), "batch ", first_batch,
          " of an epoch that has ", loader_.batches());
    if (from_) from_->start(epoch, first_batch);
    order_ = {};
    order_ = loader_.sampler().order(epoch, device_);
    recipe_ = augments() ? loader_.recipe(epoch) : Recipe{.levels = *loader_.transforms().levels()};
    next_ = first_batch;
  }

  void catch_up() override {
    if (from_) from_->catch_up();
  }

  bool next(Batch& batch) override {
    CHECK(order_.defined(), "start() an epoch before next()");
    batch = {};
    Batch in = samples_;
    if (from_ ? !from_->next(in) : next_ == loader_.batches()) return false;
    const Sampler& sampler = loader_.sampler();
    batch = buffers_.free(with_rows(sampler.count(next_), loader_.transforms().shape()));
    batch.x.raise_version();
    batch.y.raise_version();
    kernels::augment(batch.x, batch.y, in.x, samples_.y,
                     order_.view({batch.size()}, {1}, sampler.first(next_)), recipe_);
    if (from_) {
      in.x = batch.x;
      batch = std::move(in);
    } else {
      batch.counts = {batch.size(), sampler.joint_size(next_), sampler.fewest(next_),
                      sampler.weight(next_)};
      trace::count<"tensor.device_created">(2);
    }
    ++next_;
    if (augments()) trace::count<"augment.device_images">(batch.size());
    return true;
  }

  void write_into(const Batch& place) override { buffers_.prefer(place); }

 private:
  bool augments() const { return loader_.options().feed.device_augment; }

  const Device device_;
  Loader& loader_;
  const Batch samples_;  // (N, C, H, W) u8, (N) i64
  const std::unique_ptr<Feed> bytes_;
  Feed* const from_;  // null: gathers from samples_
  BatchBuffers buffers_;
  Tensor order_;  // (N) i64: order of this epoch, on the device
  Recipe recipe_;
  int64_t next_ = 0;  // index of the next batch
};

}  // namespace

std::unique_ptr<Feed> augmenting_feed(Device device, Loader& loader, std::unique_ptr<Feed> bytes,
                                      DType images) {
  return std::make_unique<AugmentingFeed>(device, loader, images, Batch(), std::move(bytes));
}

// ---- all samples on the device

// Copies all samples to the device as bytes and labels, piece by piece, so that the host never
// holds a second copy of the data set.
static void upload(const Loader& loader, const Batch& to) {
  constexpr int64_t kPiece = 8192;  // samples
  const Dataset& dataset = loader.dataset();
  const Shape& shape = dataset.info().input.shape;
  const int64_t bytes = shape.numel();
  Scratch scratch;
  for (int64_t begin = 0; begin < dataset.size(); begin += kPiece) {
    const int64_t n = std::min(kPiece, dataset.size() - begin);
    const Tensor x(with_rows(n, shape), DType::u8), y({n}, DType::i64);
    for (int64_t i = 0; i < n; ++i)
      at_sample(dataset, begin + i, loader.options().batch.on_damaged, [&] {
        const Sample sample = dataset.at(begin + i, scratch);
        std::memcpy(x.ptr<uint8_t>() + i * bytes, sample.pixels, bytes);
        y.ptr<int64_t>()[i] = sample.label;
      });
    const Batch place = slice(to, begin, begin + n);
    copy_into(place.x, x);
    copy_into(place.y, y);
  }
}

static std::string why_too_large(Device device, size_t bytes) {
  const size_t free = api_of(device).available();
  if (bytes <= free / 2) return "";
  return cat("the data set has ", bytes >> 20, " MiB, more than half of the ", free >> 20,
             " MiB that are free");
}

std::string why_not_resident(Device device, const Loader& loader) {
  const Dataset& dataset = loader.dataset();
  if (!dataset.arrays() && !dataset.fixed_pixels()) return "the host decodes its samples";
  const Transforms& transforms = loader.transforms();
  if (dataset.arrays())
    return why_too_large(device, dataset.arrays()->x.nbytes() + dataset.arrays()->y.nbytes());
  if (loader.options().feed.device_augment && !transforms.all_left())
    return "only the host can do some of its transforms";
  if (!loader.options().feed.device_augment && !transforms.levels())
    return "its transforms are the host's; write  toggles: {device_augment: on}";
  return why_too_large(device, dataset.size() * (dataset.info().input.shape.numel() + 8));
}

namespace {

// All samples of a data set that has no images, on the device.
class ResidentArrays : public Feed {
 public:
  ResidentArrays(Device device, Loader& loader)
      : device_(device), loader_(loader), buffers_(buffers_on(device, loader)) {
    const Arrays& host = *loader.dataset().arrays();
    const auto moved = [device](const Tensor& t) {
      return t.defined() ? to(device, contiguous(t)) : Tensor();
    };
    arrays_ = {moved(host.x), moved(host.y), moved(host.offsets), moved(host.lengths)};
  }

  void start(int64_t epoch, int64_t first_batch) override {
    plan_ = loader_.sampler().plan(epoch);
    order_ = to(device_, plan_.order);
    next_ = first_batch;
  }

  bool next(Batch& batch) override {
    CHECK(order_.defined(), "start() an epoch before next()");
    batch = {};
    if (next_ == loader_.batches()) return false;
    const BatchSource& from = loader_.source();
    batch = from.take(buffers_, plan_, next_);
    const Tensor samples = from.sampler.samples(plan_, next_++);
    collate(arrays_, order_.view(samples.shape(), {1}, samples.offset()),
            from.dataset->info().target.varies, batch);
    trace::count<"tensor.device_created">(2);
    return true;
  }

  void write_into(const Batch& place) override { buffers_.prefer(place); }

 private:
  const Device device_;
  Loader& loader_;
  BatchBuffers buffers_;
  Arrays arrays_;
  EpochPlan plan_;
  Tensor order_;  // order of plan_, on the device
  int64_t next_ = 0;
};

}  // namespace

std::unique_ptr<Feed> resident_feed(Device device, Loader& loader, DType images) {
  const Dataset& dataset = loader.dataset();
  if (dataset.arrays()) return std::make_unique<ResidentArrays>(device, loader);
  const Batch samples{
      Tensor(with_rows(dataset.size(), dataset.info().input.shape), DType::u8, device),
      Tensor({dataset.size()}, DType::i64, device)};
  upload(loader, samples);
  return std::make_unique<AugmentingFeed>(device, loader, images, samples);
}

}  // namespace bellows
