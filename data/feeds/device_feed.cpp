#include "data/feeds/device_feed.h"
#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "core/tensor/pinned.h"

namespace bellows {

namespace {

// Number of batches by which the host may be ahead of the device. Host buffers stay in use until
// their copies are done, so without this bound host memory could grow without limit.
constexpr size_t kAhead = 4;

// Note [When a buffer is free]: the copy stream writes a device buffer, the compute stream reads
// it, and the host only queues work. The copy waits for an event at the current end of the compute
// stream. That is late enough: the host requests a batch only after it has queued the last use of
// the previous one. The compute stream waits for an event after the copy. A host buffer returns to
// the loader once the event of its copy is ready, which the host polls instead of waiting.
//
// Copies batches to the device. Not `ahead`: copies each one when next() is called, and the host
// waits for the copy. Else copies the next batch on the copy stream while the current one is in
// use. The streams wait for each other by events; the host waits only if the device is four batches
// behind (counter copy.waits). Counters, for pinned memory: copy.async, and copy.overlapped for
// copies that began before their batch was requested.
class CopyFeed : public Feed {
 public:
  CopyFeed(Device device, Loader& loader, bool ahead)
      : ahead_(ahead),
        copies_(stream_of(device, ahead ? StreamUse::copy : StreamUse::compute)),
        loader_(loader),
        buffers_(buffers_on(device, loader)),
        used_(device) {
    for (size_t i = 0; i < kAhead; ++i) flights_.emplace_back(device);
  }
  ~CopyFeed() override {
    const bool flying =
        std::ranges::any_of(flights_, [](const Flight& f) { return f.host.x.defined(); });
    try {
      if (flying) synchronize(copies_);
    } catch (const Error&) {  // the device has failed, so nothing runs there
    }
  }

  void start(int64_t epoch, int64_t first_batch) override {
    sent_.reset();
    error_ = nullptr;
    ended_ = false;
    loader_.start(epoch, first_batch);
  }
  // Not `ahead`, waits only with workers. Without them the host makes the next batch while the
  // device computes.
  void catch_up() override {
    if (ahead_)
      free_flight();
    else if (loader_.workers())
      synchronize(copies_);
  }

  bool next(Batch& batch) override {
    batch = {};
    drop_what_was_read();
    if (sent_ && sent_->pinned) trace::count<"copy.overlapped">();
    if (!sent_) sent_ = send();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    if (!sent_) return false;
    sent_->copied->hold(current_stream(copies_.device));
    batch = std::exchange(sent_, {})->batch;
    if (ahead_)
      sent_ = send();
    else
      synchronize(copies_), drop_what_was_read();
    return true;
  }

 private:
  struct Flight {
    explicit Flight(Device device) : copied(device) {}
    Batch host;  // source of the copy; empty once that is done
    Event copied;
  };
  struct PendingBatch {
    Batch batch;
    const Event* copied;
    bool pinned;  // false: the driver has staged the pageable memory already
  };

  std::optional<PendingBatch> send() {
    if (ended_) return {};
    Flight& flight = free_flight();
    try {
      ended_ = !loader_.next(flight.host);
    } catch (...) {
      error_ = std::current_exception();
      ended_ = true;
    }
    if (ended_) return {};
    ++next_;
    Batch batch = buffers_.free(flight.host.x.shape(), flight.host.y.shape());
    copy(batch, flight);
    return PendingBatch{batch, &flight.copied, is_pinned(flight.host.x)};
  }

  void copy(Batch& batch, Flight& flight) {
    used_.record(current_stream(copies_.device));
    used_.hold(copies_);
    {
      const StreamGuard on(copies_);
      copy_batch(batch, flight.host);
    }
    flight.copied.record(copies_);
    batch.each([&](const Tensor& t) { record_use(t, copies_); });
    if (ahead_ && is_pinned(flight.host.x)) trace::count<"copy.async">();
  }
  // Returns the oldest flight. If its copy is not done, the device is kAhead batches behind, and
  // the host waits for it.
  Flight& free_flight() {
    Flight& flight = flights_[next_ % kAhead];
    if (flight.host.x.defined()) trace::count<"copy.waits">();
    while (flight.host.x.defined()) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      drop_what_was_read();
    }
    return flight;
  }

  void drop_what_was_read() {
    for (size_t i = 0; i < kAhead; ++i) {
      Flight& flight = flights_[(next_ + i) % kAhead];
      if (!flight.host.x.defined()) continue;
      if (!flight.copied.ready()) return;
      flight.host = {};
    }
  }

  const bool ahead_;
  const Stream copies_;
  Loader& loader_;
  BatchBuffers buffers_;
  Event used_;
  std::deque<Flight> flights_;  // a ring, in the order of the copies
  size_t next_ = 0;             // number of copies so far: index of the next flight
  std::optional<PendingBatch> sent_;
  std::exception_ptr error_;  // error of the batch after sent_; thrown when that batch is due
  bool ended_ = false;
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
  if (device != Device::cpu)
    feed = std::make_unique<CopyFeed>(device, loader, options.non_blocking);
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
