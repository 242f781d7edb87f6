// blocking_feed: copies each batch on the current stream; the host waits for the copy.
#include "data/feeds/device_feed.h"

namespace bellows {

namespace {

class BlockingFeed : public Feed {
 public:
  BlockingFeed(Device device, Loader& loader)
      : device_(device), loader_(loader), buffers_(buffers_on(device, loader)) {}

  void start(int64_t epoch, int64_t first_batch) override { loader_.start(epoch, first_batch); }

  // Without workers the host makes the next batch while the device computes.
  void catch_up() override {
    if (loader_.workers()) synchronize(current_stream(device_));
  }

  bool next(Batch& batch) override {
    batch = {};
    Batch host;
    if (!loader_.next(host)) return false;
    batch = buffers_.free(host.x.shape());
    copy_batch(batch, host);
    synchronize(current_stream(device_));
    return true;
  }

 private:
  const Device device_;
  Loader& loader_;
  BatchBuffers buffers_;
};

}  // namespace

std::unique_ptr<Feed> blocking_feed(Device device, Loader& loader) {
  return std::make_unique<BlockingFeed>(device, loader);
}

}  // namespace bellows
