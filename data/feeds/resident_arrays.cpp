// resident_feed for samples that are not images: all of them stay on the device beside the epoch's
// order, and kernels::collate gathers each batch there.
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "data/feeds/device_feed.h"

namespace bellows {

namespace {

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
  Tensor order_;  // of plan_, on the device
  int64_t next_ = 0;
};

}  // namespace

std::unique_ptr<Feed> resident_arrays_feed(Device device, Loader& loader) {
  return std::make_unique<ResidentArrays>(device, loader);
}

}  // namespace bellows
