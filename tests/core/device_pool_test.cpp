// GPU allocator: streams, pools of captured graphs, out of memory.
#include <thread>
#include "core/base/module_path.h"
#include "core/base/trace.h"
#include "core/device/allocator.h"
#include "core/device/graph.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "tests/matchers.h"
#include "tests/refusal.h"

using namespace bellows;

static AllocatorStats stats() { return allocator_stats(Device::cuda); }
static Tensor on_gpu(int64_t floats) { return Tensor({floats}, DType::f32, Device::cuda); }
static Stream copies() { return stream_of(Device::cuda, StreamUse::copy); }

// Every test starts from an empty cache and ends with the allocator as it found it.
class AllocatorOnDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (device_count(Device::cuda) == 0) GTEST_SKIP() << why_no_device(Device::cuda);
    caching(true);
  }
  void TearDown() override {
    if (device_count(Device::cuda)) caching(false);
  }
  static void caching(bool on) {
    synchronize(stream_of(Device::cuda));
    configure_allocator(Device::cuda, {.caching = false});
    configure_allocator(Device::cuda, {.caching = on});
  }
};

// Allocates and releases the tensors of a step.
static void step() {
  const Tensor a = on_gpu(640), b = on_gpu(64 * 784);
  { const Tensor c = on_gpu(840); }
  const Tensor d = on_gpu(840), e = on_gpu(1 << 20);
}

TEST_F(AllocatorOnDevice, CountsBytesAndTheirPeaks) {
  reset_peak(Device::cuda);
  const AllocatorStats before = stats();
  {
    const Tensor a = on_gpu(100), b = on_gpu(1000);
    EXPECT_EQ(stats().allocated, before.allocated + 512 + 4096);
  }
  EXPECT_EQ(stats().allocated, before.allocated);
  EXPECT_EQ(stats().peak_allocated, before.allocated + 512 + 4096);
  EXPECT_EQ(stats().reserved, before.reserved + (2 << 20));
  empty_cache(Device::cuda);
  EXPECT_EQ(stats().reserved, before.reserved);
}

// ---- streams

TEST_F(AllocatorOnDevice, ABlockStaysWithTheStreamItWasMadeFor) {
  const auto address = [](Stream stream) {
    const StreamGuard on(stream);
    return on_gpu(1000).bytes();
  };
  const std::byte *mine = address(stream_of(Device::cuda)), *others = address(copies());
  EXPECT_NE(mine, others);
  EXPECT_EQ(address(stream_of(Device::cuda)), mine);
  EXPECT_EQ(address(copies()), others);
}

TEST_F(AllocatorOnDevice, WhatAnotherStreamUsesIsFreeOnceThatIsDone) {
  Tensor block = on_gpu(1000);
  const std::byte* const address = block.bytes();
  const Tensor target = on_gpu(1000);
  {
    const StreamGuard on(copies());
    copy_into(target, block);
  }
  record_use(block.view({10}, {1}, 500), copies());
  block = {};
  synchronize(copies());
  EXPECT_EQ(on_gpu(1000).bytes(), address) << "its event is ready: it is free";
}

// The block cannot be reused until its event is ready.
TEST_F(AllocatorOnDevice, AsksTheEventsAndNeverWaitsForThem) {
  DeviceApi& api = device_apis[static_cast<int>(Device::cuda)];
  static bool done;
  done = false;
  const auto before = std::exchange(api.ready, [](void*) { return done; });
  Tensor block = on_gpu(1000);
  const std::byte* const address = block.bytes();
  record_use(block, copies());
  const int64_t syncs = trace::counter("sync.count").value();
  block = {};
  EXPECT_NE(on_gpu(1000).bytes(), address);
  EXPECT_NE(on_gpu(1000).bytes(), address);
  done = true;
  EXPECT_EQ(on_gpu(1000).bytes(), address);
  EXPECT_EQ(trace::counter("sync.count").value(), syncs);
  api.ready = before;
}

// ---- pools of captured graphs

TEST_F(AllocatorOnDevice, APoolKeepsItsBlocksToItself) {
  auto pool = std::make_shared<MemoryPool>(Device::cuda);
  const std::byte* inside = nullptr;
  {
    const PoolScope scope(pool);
    inside = on_gpu(1000).bytes();
    EXPECT_EQ(on_gpu(1000).bytes(), inside);
  }
  EXPECT_EQ(stats().reserved, 2 << 20);
  EXPECT_NE(on_gpu(1000).bytes(), inside);
  EXPECT_EQ(stats().reserved, 4 << 20);
  empty_cache(Device::cuda);
  EXPECT_EQ(stats().reserved, 2 << 20) << "what a graph will write went back to the system";
  {
    const PoolScope scope(pool);
    EXPECT_EQ(on_gpu(1000).bytes(), inside);
  }
  pool.reset();
  empty_cache(Device::cuda);
  EXPECT_EQ(stats().reserved, 0) << "what nobody's graph will write is everybody's";
}

TEST_F(AllocatorOnDevice, ABlockGoesBackToThePoolOfItsScopeWhereverItIsReleased) {
  const auto outer = std::make_shared<MemoryPool>(Device::cuda);
  const auto inner = std::make_shared<MemoryPool>(Device::cuda);
  const PoolScope first(outer);
  Tensor t;
  {
    const PoolScope second(inner);
    t = on_gpu(1000);
  }
  const std::byte* const inside = t.bytes();
  t = {};
  EXPECT_NE(on_gpu(1000).bytes(), inside);
  const PoolScope second(inner);
  EXPECT_EQ(on_gpu(1000).bytes(), inside);
}

// The update before the capture has left all blocks that it needs in the pool.
TEST_F(AllocatorOnDevice, ACaptureFindsItsBlocksAndAsksTheSystemForNothing) {
  const auto pool = std::make_shared<MemoryPool>(Device::cuda);
  const PoolScope scope(pool);
  step();
  const int64_t calls = stats().system_calls;
  const Graph graph(Device::cuda, [] {
    step();
    record_use(on_gpu(100), copies());  // its event is recorded after the capture
  });
  EXPECT_EQ(stats().system_calls, calls);
  step();
}

// A capture whose blocks do not fit into the pool may allocate from the system.
TEST_F(AllocatorOnDevice, ACaptureMayTakeMemoryFromTheSystem) {
  const auto pool = std::make_shared<MemoryPool>(Device::cuda);
  const PoolScope scope(pool);
  const int64_t calls = stats().system_calls;
  const Graph graph(Device::cuda, [] { on_gpu(8 << 20); });
  EXPECT_EQ(stats().system_calls, calls + 1);
}

// Other threads may allocate and record uses meanwhile.
TEST_F(AllocatorOnDevice, OtherThreadsGoOnDuringACapture) {
  const auto pool = std::make_shared<MemoryPool>(Device::cuda);
  const PoolScope scope(pool);
  const Tensor x = on_gpu(100);
  const int64_t calls = stats().system_calls;
  const Graph graph(Device::cuda, [&] {
    fill(x, 1);
    std::thread([] {
      record_use(on_gpu(1 << 20), copies());
      on_gpu(1 << 20);
    }).join();
  });
  EXPECT_GT(stats().system_calls, calls);
  fill(x, 2);
  graph.launch();
  EXPECT_EQ(to(Device::cpu, x).ptr<float>()[99], 1) << "the capture went on";
}

// An event of this use, recorded on the stream of the capture, would belong to the capture, and no
// later allocation could query it, on whatever thread.
TEST_F(AllocatorOnDevice, AnotherThreadReleasesABlockThatTheCapturedStreamUses) {
  Tensor block;
  {
    const StreamGuard on(copies());
    block = on_gpu(1000);
  }
  const std::byte* const address = block.bytes();
  record_use(block, stream_of(Device::cuda));
  const Tensor x = on_gpu(100);
  const Graph graph(Device::cuda, [&] {
    fill(x, 1);
    std::thread([&] {
      block = {};
      on_gpu(1000);  // queries no event
    }).join();
  });
  std::thread([] { on_gpu(1000); }).join();  // records the event
  std::thread([] { on_gpu(1000); }).join();  // queries it
  synchronize(stream_of(Device::cuda));
  const StreamGuard on(copies());
  EXPECT_EQ(on_gpu(1000).bytes(), address) << "its event is ready: it is free";
}

// ---- out of memory

TEST_F(AllocatorOnDevice, SaysWhoHoldsWhatAndWhatToDo) {
  const ModuleScope at(site_of("layer1.conv"));
  const Tensor large = on_gpu(3 << 20), a = on_gpu(1 << 20), b = on_gpu(1 << 20);
  EXPECT_THAT(complaint(Exit::memory, [] { on_gpu(int64_t{1} << 44); }),
              AllOf(HasSubstr("out of cuda memory: asked for 67108864 MiB with "),
                    HasSubstr(" reserved (fragmentation "), HasSubstr(" free on the device; "),
                    HasSubstr("the largest tensors: 12 MiB in layer1.conv, 2 x 4 MiB in layer1"),
                    HasSubstr("try a smaller data.batch_size")));
  on_gpu(1000);  // the allocator still works
}

// Before it fails, the allocator waits for blocks in use and returns its cache to the system.
TEST_F(AllocatorOnDevice, GivesUpWhatItKeepsBeforeItRefuses) {
  static size_t limit;
  static void* (*system)(size_t);
  DeviceApi& api = device_apis[static_cast<int>(Device::cuda)];
  limit = size_t{32} << 20;
  system = std::exchange(
      api.allocate, [](size_t bytes) -> void* { return bytes <= limit ? system(bytes) : nullptr; });
  {
    Tensor kept = on_gpu(6 << 20);
    record_use(kept, copies());
  }
  EXPECT_EQ(stats().reserved, 24 << 20);
  limit = 0;
  complaint(Exit::memory, [] { on_gpu(7 << 20); });
  EXPECT_EQ(stats().reserved, 0) << "it refused while it kept memory that nobody uses";
  api.allocate = system;
}
