// Faults between streams, planted in the product's own allocator and feed: an event
// without a wait, a block that is reused while another stream still uses it.
#include <gtest/gtest.h>
#include "core/device/allocator.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "data/feeds/device_feed.h"
#include "tests/cuda_host/cuda_host.h"
#include "tests/data/numbers.h"

using namespace bellows;

namespace {

DeviceApi& gpu() { return device_apis[static_cast<int>(Device::cuda)]; }
Stream computes() { return stream_of(Device::cuda, StreamUse::compute); }
Stream copies() { return stream_of(Device::cuda, StreamUse::copy); }

// Plants a fault while it lives: the device reports every event as ready, or skips the waits of one
// stream.
Stream deaf;  // skips its waits
void (*real_wait)(Stream, void*);

class Plant {
 public:
  explicit Plant(Stream skips = {}, bool every_event_is_ready = false) : right_(gpu()) {
    real_wait = right_.wait;
    deaf = skips;
    if (every_event_is_ready) gpu().ready = [](void*) { return true; };
    gpu().wait = [](Stream stream, void* event) {
      if (!(stream == deaf)) real_wait(stream, event);
    };
  }
  ~Plant() { gpu() = right_; }

 private:
  const DeviceApi right_;
};

// Releases the cache at the end, so that the device can be reset.
class OwnCache {
 public:
  OwnCache() { configure_allocator(Device::cuda, {.caching = true}); }
  ~OwnCache() {
    for (const Stream stream : {computes(), copies()}) gpu().synchronize(stream);
    configure_allocator(Device::cuda, {.caching = false});
  }
};

std::vector<float> read(const Tensor& t) {
  for (const Stream stream : {computes(), copies()}) gpu().synchronize(stream);
  const Tensor host = to(Device::cpu, t);
  return {host.ptr<float>(), host.ptr<float>() + host.numel()};
}

// The copy stream reads a block that is released meanwhile; the next tensor may reuse it.
std::vector<float> reuse(bool record) {
  const OwnCache cache;
  const Tensor y({64}, DType::f32, Device::cuda);
  Tensor block = full({64}, 1, DType::f32, Device::cuda);
  Event filled(Device::cuda);
  filled.record(computes());
  filled.hold(copies());
  {
    const StreamGuard on(copies());
    copy_into(y, block);
  }
  if (record) record_use(block, copies());
  block = {};
  const Tensor next = full({64}, 100, DType::f32, Device::cuda);
  return read(y);
}

// Runs six steps of four samples from the product's feed. Each adds its batch to a sum and stores
// the sum so far.
std::vector<float> train() {
  const OwnCache cache;
  const Tensor sum = zeros({4, 1, 2, 2}, DType::f32, Device::cuda);
  const Tensor seen({6, 16}, DType::f32, Device::cuda);
  Loader loader(
      std::make_shared<Numbers>(24), {},
      {.sampler = {.batch_size = 4}, .batch = {.pin_memory = true}, .feed = {.non_blocking = true}},
      3);
  std::vector<std::string> notes;
  const std::unique_ptr<Feed> feed = make_feed(Device::cuda, loader, notes);
  feed->start(0);
  int64_t step = 0;
  for (Batch batch; feed->next(batch);) {
    add_into(sum, batch.x);
    add_into(sum, batch.x, 2);
    copy_into(seen.view(sum.shape(), sum.strides(), 16 * step++), sum);
  }
  return read(seen);
}

struct StreamsOfTheProduct : testing::Test {
  void SetUp() override { cuda_host::reset(); }
};
struct PlantedRaceInAllocator : StreamsOfTheProduct {};  // under TSan the process ends at each,
struct PlantedRaceInFeed : StreamsOfTheProduct {};       // see CMakeLists.txt

void expect_found(const std::function<std::vector<float>()>& run) {
  const std::string complaint = cuda_host::order_dependence(run);
  EXPECT_NE(complaint.find("in order it is"), std::string::npos) << "'" << complaint << "'";
}

TEST_F(StreamsOfTheProduct, AreRightInEveryOrder) {
  EXPECT_EQ(cuda_host::order_dependence([] { return reuse(true); }), "");
  EXPECT_EQ(cuda_host::order_dependence(train), "");
}

TEST_F(PlantedRaceInAllocator, AUseThatNobodyRecorded) {
  expect_found([] { return reuse(false); });
}
TEST_F(PlantedRaceInAllocator, ABlockThatIsFreeBeforeItsEvent) {
  const Plant plant({}, true);
  expect_found([] { return reuse(true); });
}
// A step must wait for its batch, and a copy for the step before.
TEST_F(PlantedRaceInFeed, AStreamThatWaitsForNobody) {
  for (const Stream stream : {computes(), copies()}) {
    const Plant plant(stream);
    expect_found(train);
  }
}
// Wrong under every schedule, since the host runs ahead in all of them.
TEST_F(PlantedRaceInFeed, AHostBufferThatIsFilledBeforeItsCopy) {
  const std::vector<float> right = train();
  cuda_host::reset();
  const Plant plant({}, true);
  EXPECT_NE(train(), right);
}

}  // namespace
