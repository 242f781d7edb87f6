// augmenting_feed: runs kernels::augment on batches of bytes, which another feed or (on the CPU)
// the loader delivers.
#include "core/base/trace.h"
#include "data/feeds/augment.h"
#include "data/feeds/device_feed.h"

namespace bellows {

namespace {

class AugmentingFeed : public Feed {
 public:
  AugmentingFeed(Device device, Loader& loader, std::unique_ptr<Feed> bytes,
                 const ModelInput& input)
      : device_(device),
        loader_(loader),
        bytes_(std::move(bytes)),
        from_(bytes_ ? *bytes_ : loader),
        buffers_(model_buffers_on(device, loader, input)) {}

  void start(int64_t epoch, int64_t first_batch) override {
    from_.start(epoch, first_batch);
    order_ = {};
    order_ = loader_.sampler().whole_order(epoch, device_);
    recipe_ = loader_.recipe(epoch);
    shape_ = loader_.transforms().shape(epoch);
    next_ = first_batch;
  }

  void catch_up() override { from_.catch_up(); }
  bool next(Batch& batch) override {
    batch = {};
    Batch bytes;
    if (!from_.next(bytes)) return false;
    const Tensor x = buffers_.free(with_rows(bytes.size(), shape_)).x;
    x.raise_version();
    kernels::augment(
        x, {}, bytes.x, {}, order_,
        {next_++ * loader_.options().sampler.batch_size, loader_.sampler().share(), recipe_});
    trace::count<"augment.device_images">(x.dim(0));
    batch = {x, bytes.y};
    return true;
  }

  void write_into(const Batch& place) override { buffers_.prefer(place); }

 private:
  const Device device_;
  Loader& loader_;
  const std::unique_ptr<Feed> bytes_;
  Feed& from_;
  BatchBuffers buffers_;
  Tensor order_;  // (N) i64: order of this epoch, on the device
  Recipe recipe_;
  Shape shape_;       // (C, H, W) of this epoch's images
  int64_t next_ = 0;  // index of the next batch
};

}  // namespace

std::unique_ptr<Feed> augmenting_feed(Device device, Loader& loader, std::unique_ptr<Feed> bytes,
                                      const ModelInput& input) {
  return std::make_unique<AugmentingFeed>(device, loader, std::move(bytes), input);
}

}  // namespace bellows
