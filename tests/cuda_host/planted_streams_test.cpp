// Faults between streams, planted in the product's own allocator, feed and convolution: an event
// without a wait, a block that is reused while another stream still uses it.
#include <gtest/gtest.h>
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "core/device/allocator.h"
#include "core/device/kernel_options.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "data/feeds/device_feed.h"
#include "ops/conv/conv2d.h"
#include "ops/reduce.h"
#include "tests/cuda_host/cuda_host.h"
#include "tests/data/numbers.h"

using namespace bellows;

namespace {

DeviceApi& gpu() { return device_apis[static_cast<int>(Device::cuda)]; }
Stream computes() { return stream_of(Device::cuda, StreamUse::compute); }
Stream copies() { return stream_of(Device::cuda, StreamUse::copy); }
Stream side() { return stream_of(Device::cuda, StreamUse::side); }

// Planted faults: the device reports every event as ready, or skips the waits of one stream.
enum class Fault {
  none,
  every_event_is_ready,
  compute_waits_for_nobody,
  copies_wait_for_nobody,
  side_waits_for_nobody
};
Stream deaf;  // skips its waits
void (*real_wait)(Stream, void*);

class Plant {
 public:
  explicit Plant(Fault fault) : right_(gpu()) {
    real_wait = right_.wait;
    deaf = fault == Fault::compute_waits_for_nobody ? computes()
           : fault == Fault::copies_wait_for_nobody ? copies()
           : fault == Fault::side_waits_for_nobody  ? side()
                                                    : Stream{};
    if (fault == Fault::every_event_is_ready) gpu().ready = [](void*) { return true; };
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
    for (const Stream stream : {computes(), copies(), side()}) gpu().synchronize(stream);
    configure_allocator(Device::cuda, {.caching = false});
  }
};

std::vector<float> read(const Tensor& t) {
  for (const Stream stream : {computes(), copies()}) gpu().synchronize(stream);
  const Tensor host = to(Device::cpu, t);
  return {host.ptr<float>(), host.ptr<float>() + host.numel()};
}

// The copy stream reads a block that is released meanwhile; the next tensor may reuse it.
std::vector<float> reuse(bool record, Fault fault) {
  const OwnCache cache;
  const Plant plant(fault);
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

// Runs six steps. Each adds its batch to a sum and stores the sum so far.
std::vector<float> train(Fault fault) {
  const OwnCache cache;
  const Plant plant(fault);
  Loader loader(
      std::make_shared<Numbers>(24), {},
      {.sampler = {.batch_size = 4}, .batch = {.pin_memory = true}, .feed = {.non_blocking = true}},
      3);
  std::vector<std::string> notes;
  const auto feed = make_feed(Device::cuda, loader, notes);
  const Tensor sum = zeros({4, 1, 2, 2}, DType::f32, Device::cuda);
  const Tensor seen({6, 16}, DType::f32, Device::cuda);
  feed->start(0);
  int64_t step = 0;
  for (Batch batch; feed->next(batch);) {
    add_into(sum, batch.x);
    add_into(sum, batch.x, 2);
    copy_into(seen.view(sum.shape(), sum.strides(), 16 * step++), sum);
  }
  return read(seen);
}

// Gradients of two convolutions, each with its weight's beside its input's.
std::vector<float> convolve(Fault fault) {
  const OwnCache cache;
  const Plant plant(fault);
  const Kernels use({.overlap_wgrad = true});
  const auto leaf = [](const Shape& shape) {
    return require_grad(full(shape, 0.5, DType::f32, Device::cuda));
  };
  const Tensor x = leaf({2, 3, 6, 6}), w1 = leaf({4, 3, 3, 3}), w2 = leaf({5, 4, 3, 3});
  backward(sum(conv2d(conv2d(x, w1, {}, {.padding = 1}), w2, {}, {.padding = 1})));
  std::vector<float> all;
  for (const Tensor& t : {x, w1, w2}) {
    const std::vector<float> g = read(grad(t));
    all.insert(all.end(), g.begin(), g.end());
  }
  return all;
}

struct StreamsOfTheProduct : testing::Test {
  void SetUp() override { cuda_host::reset(); }
};
struct PlantedRaceInAllocator : StreamsOfTheProduct {};  // under TSan the process ends at each,
struct PlantedRaceInFeed : StreamsOfTheProduct {};       // see CMakeLists.txt
struct PlantedRaceBeside : StreamsOfTheProduct {};

void expect_found(const std::string& complaint) {
  EXPECT_NE(complaint.find("in order it is"), std::string::npos) << "'" << complaint << "'";
}

TEST_F(StreamsOfTheProduct, AreRightInEveryOrder) {
  EXPECT_EQ(cuda_host::order_dependence([] { return reuse(true, Fault::none); }), "");
  EXPECT_EQ(cuda_host::order_dependence([] { return train(Fault::none); }), "");
  EXPECT_EQ(cuda_host::order_dependence([] { return convolve(Fault::none); }), "");
}

TEST_F(StreamsOfTheProduct, ForkOncePerConvolution) {
  const trace::Counter& forks = trace::counter("cuda.forks");
  const int64_t before = forks.value();
  convolve(Fault::none);
  EXPECT_EQ(forks.value() - before, 2);
}

TEST_F(StreamsOfTheProduct, TheFeedNeverMakesTheHostWaitForTheDevice) {
  train(Fault::none);  // warm-up
  cuda_host::reset();
  const OwnCache cache;
  Loader loader(
      std::make_shared<Numbers>(24), {},
      {.sampler = {.batch_size = 4}, .batch = {.pin_memory = true}, .feed = {.non_blocking = true}},
      3);
  std::vector<std::string> notes;
  const auto feed = make_feed(Device::cuda, loader, notes);
  feed->start(0);
  Batch batch;
  for (int step = 0; step < 2; ++step) feed->next(batch);
  const cuda_host::Counters before = cuda_host::counters();
  while (feed->next(batch)) add_into(batch.x, batch.x);
  EXPECT_EQ(cuda_host::counters().synchronizations, before.synchronizations);
  EXPECT_EQ(cuda_host::counters().bytes_to_host, before.bytes_to_host);
}

TEST_F(PlantedRaceInAllocator, AUseThatNobodyRecorded) {
  expect_found(cuda_host::order_dependence([] { return reuse(false, Fault::none); }));
}
TEST_F(PlantedRaceInAllocator, ABlockThatIsFreeBeforeItsEvent) {
  expect_found(
      cuda_host::order_dependence([] { return reuse(true, Fault::every_event_is_ready); }));
}
TEST_F(PlantedRaceInFeed, AStepThatDoesNotWaitForItsBatch) {
  expect_found(cuda_host::order_dependence([] { return train(Fault::compute_waits_for_nobody); }));
}
TEST_F(PlantedRaceInFeed, ACopyThatDoesNotWaitForTheStepBefore) {
  expect_found(cuda_host::order_dependence([] { return train(Fault::copies_wait_for_nobody); }));
}
TEST_F(PlantedRaceBeside, AReaderThatDoesNotWaitForTheWeightGradient) {
  expect_found(
      cuda_host::order_dependence([] { return convolve(Fault::compute_waits_for_nobody); }));
}
TEST_F(PlantedRaceBeside, AWeightGradientThatDoesNotWaitForDy) {
  expect_found(cuda_host::order_dependence([] { return convolve(Fault::side_waits_for_nobody); }));
}
// Wrong under every schedule, since the host runs ahead in all of them.
TEST_F(PlantedRaceInFeed, AHostBufferThatIsFilledBeforeItsCopy) {
  const std::vector<float> right = train(Fault::none);
  cuda_host::reset();
  EXPECT_NE(train(Fault::every_event_is_ready), right);
}

}  // namespace
