// CPU allocator: size classes, reuse, system calls, and the guard zones that tests rely on.
#include "core/device/allocator.h"
#include <cstring>
#include <utility>
#include "core/base/module_path.h"
#include "core/device/topology.h"
#include "core/tensor/tensor.h"
#include "tests/guards.h"
#include "tests/matchers.h"
#include "tests/refusal.h"

using namespace bellows;

static AllocatorStats stats() { return allocator_stats(Device::cpu); }

// Every test starts from an empty cache and ends with the allocator as it found it.
class Allocator : public testing::Test {
 protected:
  static void caching(bool on) {
    configure_allocator(Device::cpu, {.caching = false});
    configure_allocator(Device::cpu, {.caching = on});
  }
  ~Allocator() override { configure_allocator(Device::cpu, {.caching = false}); }
};
class AnyAllocator : public Allocator, public testing::WithParamInterface<bool> {
 protected:
  AnyAllocator() { caching(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Caching, AnyAllocator, testing::Bool());

TEST_P(AnyAllocator, GivesAlignedMemoryAndWastesAtMostAFifth) {
  for (const size_t bytes : {0, 1, 63, 64, 65, 255, 256, 257, 320, 321, 1000, 4097, 100'000}) {
    const int64_t before = stats().allocated;
    void* const block = allocate(Device::cpu, bytes);
    const int64_t taken = stats().allocated - before;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u) << bytes;
    EXPECT_GE(taken, int64_t(bytes));
    EXPECT_EQ(taken % 64, 0) << bytes;
    EXPECT_LE(taken, int64_t(bytes + std::max<size_t>(bytes / 4, 64))) << bytes;
    std::memset(block, 1, taken);
    release(Device::cpu, block, bytes);
    EXPECT_EQ(stats().allocated, before) << bytes;
  }
}

TEST_P(AnyAllocator, CountsTheMemoryOfTensorsAndItsPeak) {
  reset_peak(Device::cpu);
  const int64_t before = stats().allocated;
  {
    const Tensor a({1024}, DType::f32), b({1024}, DType::f32);
    EXPECT_EQ(stats().allocated, before + 8192);
  }
  EXPECT_EQ(stats().allocated, before);
  EXPECT_EQ(stats().peak_allocated, before + 8192);
  reset_peak(Device::cpu);
  EXPECT_EQ(stats().peak_allocated, before);
}

// ---- caching

// Allocates and releases the tensors of `count` steps.
static void steps(int count) {
  for (int step = 0; step < count; ++step) {
    const Tensor a({64, 10}, DType::f32), b({64, 784}, DType::f32);
    { const Tensor c({10, 84}, DType::f32); }
    const Tensor d({10, 84}, DType::f64);
  }
}

TEST_F(Allocator, ASteadyLoopAsksTheSystemForNothing) {
  caching(true);
  steps(1);
  const AllocatorStats warm = stats();
  steps(10);
  EXPECT_EQ(stats().system_calls, warm.system_calls);
  EXPECT_EQ(stats().cache_hits, warm.cache_hits + 40);
  EXPECT_EQ(stats().reserved, warm.reserved);
  caching(false);
  const int64_t before = stats().system_calls;
  steps(10);
  EXPECT_EQ(stats().system_calls, before + 40);
}

TEST_F(Allocator, ReusesABlockOfTheSameClassOnly) {
  caching(true);
  void* const block = allocate(Device::cpu, 1000);
  release(Device::cpu, block, 1000);
  void* const other = allocate(Device::cpu, 2000);
  EXPECT_NE(other, block);
  void* const same = allocate(Device::cpu, 1001);  // both round to 1024
  EXPECT_EQ(same, block);
  release(Device::cpu, other, 2000);
  release(Device::cpu, same, 1001);
}

TEST_F(Allocator, EmptyCacheGivesBackWhatNoTensorHolds) {
  caching(true);
  const int64_t before = stats().reserved;
  const Tensor held({1000}, DType::f32);
  { const Tensor dropped({5000}, DType::f32); }
  EXPECT_EQ(stats().reserved, before + 4096 + 20480);
  empty_cache(Device::cpu);
  EXPECT_EQ(stats().reserved, before + 4096);
}

// ---- failure

TEST_F(Allocator, SaysWhatIsHeldWhenTheSystemHasNoMore) {
  DeviceApi& api = device_apis[static_cast<int>(Device::cpu)];
  const auto before = std::exchange(api.allocate, [](size_t) -> void* { return nullptr; });
  const AllocatorStats held = stats();
  const auto allocate_1m = [] { allocate(Device::cpu, 1 << 20); };
  const std::string refusal = complaint(Exit::memory, allocate_1m);
  const auto in_a_module = [&] {
    const ModuleScope at(site_of("conv1"));
    return complaint(Exit::memory, allocate_1m);
  }();
  api.allocate = before;
  EXPECT_THAT(refusal, AllOf(StartsWith("out of cpu memory: asked for 1048576 bytes with "),
                             HasSubstr("a smaller model or data.batch_size")));
  EXPECT_THAT(in_a_module, EndsWith("reserved; try a smaller data.batch_size"));
  EXPECT_EQ(stats().allocated, held.allocated) << "a block that nobody got is counted";
  EXPECT_EQ(stats().reserved, held.reserved);
}

TEST_F(Allocator, GivesBackWhatItKeepsBeforeItFails) {
  caching(true);
  static bool full;
  full = true;
  DeviceApi& api = device_apis[static_cast<int>(Device::cpu)];
  { const Tensor kept({1 << 20}, DType::u8); }
  const DeviceApi before = api;
  api.allocate = [](size_t bytes) { return full ? nullptr : std::aligned_alloc(64, bytes); };
  api.release = [](void* memory, size_t) {
    full = false;
    std::free(memory);
  };
  { const Tensor larger({3 << 20}, DType::u8); }
  api = before;
  EXPECT_FALSE(full);
}

// ---- guards

class Guards : public Allocator {
 protected:
  Guards() { guard_allocations(true); }
  ~Guards() override { guard_allocations(false); }
};

TEST_F(Guards, CatchWritesOnEitherSide) {
  for (const int64_t at : {-1, 10, -16, 25}) {
    {
      const Tensor t({10}, DType::f32);
      t.ptr<float>()[at] = 1;
    }
    EXPECT_EQ(guard_complaint(),
              cat("a write ", at < 0 ? "before" : "after", " a block of 40 bytes"));
    EXPECT_EQ(guard_complaint(), "") << "a complaint is handed out once";
  }
}

TEST_F(Guards, FreshMemoryReadsAsNaN) {
  const Tensor t({100}, DType::f32), d({100}, DType::f64);
  for (const float value : t.data<float>()) EXPECT_TRUE(std::isnan(value));
  for (const double value : d.data<double>()) EXPECT_TRUE(std::isnan(value));
}
