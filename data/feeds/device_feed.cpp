#include "data/feeds/device_feed.h"
#include <algorithm>
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "core/tensor/pinned.h"

namespace bellows {

namespace {

// Copies each batch on the current stream when next() is called; the host waits for the copy.
class BlockingFeed : public Feed {
 public:
  BlockingFeed(Device device, Loader& loader)
      : device_(device), loader_(loader), buffers_(buffers_on(device, loader)) {}

  void start(int64_t epoch, int64_t first_batch) override { loader_.start(epoch, first_batch); }

  // Waits only with workers. Without them the host makes the next batch while the device computes.
  void catch_up() override {
    if (loader_.workers()) synchronize(current_stream(device_));
  }

  bool next(Batch& batch) override {
    batch = {};
    Batch host;
    if (!loader_.next(host)) return false;
    batch = buffers_.free(host.x.shape(), host.y.shape());
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

std::unique_ptr<Feed> make_feed(Device device, Loader& loader, std::vector<std::string>& notes,
                                DType images) {
  const FeedOptions& options = loader.options().feed;
  if (device != Device::cpu && options.device_tensors) {
    const std::string why_not = why_not_resident(device, loader);
    if (why_not.empty()) return resident_feed(device, loader, images);
    const std::string note = "device_tensors: not here, " + why_not;
    if (!std::ranges::count(notes, note)) notes.push_back(note);  // one note for both splits
  }
  std::unique_ptr<Feed> feed;
  if (device != Device::cpu && options.non_blocking)
    feed = async_feed(device, loader);
  else if (device != Device::cpu)
    feed = std::make_unique<BlockingFeed>(device, loader);
  const bool augments = options.device_augment && loader.dataset().info().images();
  return augments ? augmenting_feed(device, loader, std::move(feed), images) : std::move(feed);
}

void copy_batch(Batch& to, const Batch& from) {
  int64_t copies = 0;
  for (const auto tensor : Batch::kTensors)
    if ((from.*tensor).defined()) copy_into(to.*tensor, from.*tensor), ++copies;
  to.counts = from.counts;
  trace::count<"tensor.created_then_moved">(copies);
  is_pinned(from.x) ? trace::count<"data.pinned_copy">() : trace::count<"data.staging_copies">();
}

BatchBuffers buffers_on(Device device, const Loader& loader) {
  const auto make = [device](const Shape& shape, DType type) {
    return Tensor(shape, type, device);
  };
  return {loader.source().largest(), make};
}

BatchBuffers model_buffers_on(Device device, const Loader& loader, DType images,
                              std::optional<int64_t> rows) {
  const BatchSource& from = loader.source();
  BatchForm form = from.largest();
  if (rows) form = from.form(*rows, from.dataset->info().input.shape[0]);
  if (from.dataset->info().images()) {
    form.x = with_rows(form.rows, loader.transforms().shape());
    form.x_dtype = images;
    form.format = loader.options().batch.format();
  }
  const auto make = [device](const Shape& shape, DType type) { return zeros(shape, type, device); };
  return {form, make};
}

}  // namespace bellows
