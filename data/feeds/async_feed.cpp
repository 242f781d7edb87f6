// A batch travels on the copy stream while the one before it is computed with.
#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>
#include "core/base/trace.h"
#include "core/tensor/pinned.h"
#include "data/feeds/device_feed.h"

namespace bellows {

namespace {

// Batches that the host may be ahead of the device. Their host buffers are read by copies that have
// not begun, so without a bound the host's memory would have none either.
constexpr size_t kAhead = 4;

// Note [Whose turn a buffer is]: the copy stream writes a buffer, the compute stream reads it, and
// the host only queues. The copy waits for an event that the compute stream has recorded after all
// that was queued there by then: the host asks for a batch only after it queued the last use of
// the one before. The compute stream waits for an event behind the copy. A host buffer goes back to
// the loader when nobody holds it and the event of its copy is ready, which is asked, not waited
// for.
class AsyncFeed : public Feed {
 public:
  AsyncFeed(Device device, Loader& loader);
  ~AsyncFeed() override;
  void start(int64_t epoch, int64_t first_batch) override;
  void catch_up() override { free_flight(); }
  bool next(Batch& batch) override;

 private:
  struct Flight {
    explicit Flight(Device device) : copied(device) {}
    Batch host;  // being read; empty once it has been
    Event copied;
  };
  struct OnItsWay {
    Batch batch;
    const Event* copied;
    bool pinned;  // else the driver has copied it already
  };

  std::optional<OnItsWay> send();
  void copy(const Batch& batch, Flight& flight);
  Flight& free_flight();
  void drop_what_was_read();

  const Stream copies_;
  Loader& loader_;
  BatchBuffers buffers_;
  Event used_;
  std::deque<Flight> flights_;  // in the order of their copies
  size_t next_ = 0;             // flight to be used
  std::optional<OnItsWay> sent_;
  std::exception_ptr error_;  // of the batch that would be on its way
  bool ended_ = false;
};

AsyncFeed::AsyncFeed(Device device, Loader& loader)
    : copies_(stream_of(device, StreamUse::copy)),
      loader_(loader),
      buffers_(buffers_on(device, loader)),
      used_(device) {
  for (size_t i = 0; i < kAhead; ++i) flights_.emplace_back(device);
}

AsyncFeed::~AsyncFeed() {
  const bool flying =
      std::ranges::any_of(flights_, [](const Flight& f) { return f.host.x.defined(); });
  try {
    if (flying) synchronize(copies_);
  } catch (const Error&) {  // the device is in error, and nothing runs there any more
  }
}

void AsyncFeed::start(int64_t epoch, int64_t first_batch) {
  sent_.reset();
  error_ = nullptr;
  ended_ = false;
  loader_.start(epoch, first_batch);
}

bool AsyncFeed::next(Batch& batch) {
  static trace::Counter& overlapped = trace::counter("copy.overlapped");
  batch = {};
  drop_what_was_read();
  if (sent_ && sent_->pinned) overlapped.add();
  if (!sent_) sent_ = send();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (!sent_) return false;
  sent_->copied->hold(current_stream(copies_.device));
  batch = std::exchange(sent_, {})->batch;
  sent_ = send();
  return true;
}

std::optional<AsyncFeed::OnItsWay> AsyncFeed::send() {
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
  const Batch batch = buffers_.free(flight.host.x.shape());
  copy(batch, flight);
  return OnItsWay{batch, &flight.copied, is_pinned(flight.host.x)};
}

void AsyncFeed::copy(const Batch& batch, Flight& flight) {
  static trace::Counter& async = trace::counter("copy.async");
  used_.record(current_stream(copies_.device));
  used_.hold(copies_);
  {
    const StreamGuard on(copies_);
    copy_batch(batch, flight.host);
  }
  flight.copied.record(copies_);
  record_use(batch.x, copies_);
  record_use(batch.y, copies_);
  if (is_pinned(flight.host.x)) async.add();
}

// The oldest one. Its copy has to be over: else the device is so far behind that the host waits.
AsyncFeed::Flight& AsyncFeed::free_flight() {
  static trace::Counter& waits = trace::counter("copy.waits");
  Flight& flight = flights_[next_ % kAhead];
  if (flight.host.x.defined()) waits.add();
  while (flight.host.x.defined()) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    drop_what_was_read();
  }
  return flight;
}

void AsyncFeed::drop_what_was_read() {
  for (size_t i = 0; i < kAhead; ++i) {
    Flight& flight = flights_[(next_ + i) % kAhead];
    if (!flight.host.x.defined()) continue;
    if (!flight.copied.ready()) return;
    flight.host = {};
  }
}

}  // namespace

std::unique_ptr<Feed> async_feed(Device device, Loader& loader) {
  return std::make_unique<AsyncFeed>(device, loader);
}

}  // namespace bellows
