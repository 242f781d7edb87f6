// Plants faults and checks the message that cuda_host gives for each.
#include <gtest/gtest.h>
#include "core/base/module_path.h"
#include "core/device/cuda.h"
#include "core/device/launch.cuh"
#include "core/device/reduce.cuh"
#include "core/device/shared.cuh"
#include "core/tensor/kernel.h"
#include "tests/cuda_host/cuda_host.h"
#include "tests/cuda_host/own_stream.h"
#include "tests/refusal.h"

using namespace bellows;
using namespace cuda_host;

namespace {

// n floats of device memory.
struct Floats {
  explicit Floats(int n) : n(n) { CUDA_CHECK(cudaMalloc(&data, n * sizeof(float))); }
  ~Floats() { cudaFree(data); }
  Floats(Floats&&) = delete;
  operator float*() const { return static_cast<float*>(data); }

  std::vector<float> read(const OwnStream& stream) const {
    std::vector<float> values(n);
    CUDA_CHECK(cudaMemcpyAsync(values.data(), data, n * sizeof(float), cudaMemcpyDefault, stream));
    return values;  // complete: a copy to pageable memory waits
  }

  const int n;
  void* data = nullptr;
};

__global__ void fill(float* y, int n, float value) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] = value;
}
__global__ void add(const float* x, float* y, int n, float value) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] = x[i] + value;
}

struct Planted : testing::Test {
  void SetUp() override { cuda_host::reset(); }
};
struct PlantedRace : Planted {};  // under TSan the process ends at each, see CMakeLists.txt

void expect_in(const std::string& part, const std::string& text) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in '" << text << "'";
}

// ---- inside a kernel

TEST_F(Planted, ALaunchThatFailsIsToldWithItsOpAndModule) {
  const Floats y(1);
  const ModuleScope module(site_of("layer1.conv2"));
  const RunningKernel op("conv2d");
  const Refusal fault = refused([&] { launch(fill, {1, 2048, 0, compute()}, y, 1, 1.0f); });
  EXPECT_EQ(fault.exit, Exit::internal);
  expect_in("conv2d in module 'layer1.conv2': the launch failed: ", fault.message);
}

TEST_F(Planted, FreedMemoryThatIsTouched) {
  for (const int n : {8, 1 << 14}) {
    cuda_host::reset();
    float* const stale = Floats(n);
    launch(fill, {1, 32, 0, compute()}, stale + n / 2, 4, 0.0f);
    expect_in("was touched after it was freed", cuda_host::complaint());
  }
  const Floats y(4);
  const float* const stale = Floats(1 << 14);  // reading finds whole pages only
  launch(add, {1, 32, 0, compute()}, stale + (1 << 13), y, 4, 0.0f);
  expect_in("was touched after it was freed", cuda_host::complaint());
}

template <bool with_barrier> __global__ void reverse(float* y) {
  float* const shared = dynamic_shared<float>();
  shared[threadIdx.x] = threadIdx.x;
  if constexpr (with_barrier) __syncthreads();
  y[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}
template <bool with_barrier> std::vector<float> run_reverse() {
  const Floats y(64);
  launch(reverse<with_barrier>, {1, 64, 64 * sizeof(float), compute()}, y);
  return y.read(compute());
}
TEST_F(PlantedRace, MissingBarrier) {
  EXPECT_EQ(cuda_host::order_dependence(run_reverse<true>), "");
  expect_in("threads reversed: element 0 is 63, in order it is",
            cuda_host::order_dependence(run_reverse<false>));
}

template <bool atomic> __global__ void count_threads(float* total) {
  if constexpr (atomic) {
    atomicAdd(total, 1.0f);
  } else if (threadIdx.x == 0) {
    *total = blockIdx.x;  // the last block wins
  }
}
template <bool atomic> std::vector<float> run_count() {
  const Floats total(1);
  CUDA_CHECK(cudaMemsetAsync(total, 0, sizeof(float), compute()));
  launch(count_threads<atomic>, {4, 32, 0, compute()}, total);
  return total.read(compute());
}
TEST_F(PlantedRace, BlocksThatRace) {
  EXPECT_EQ(cuda_host::order_dependence(run_count<true>), "");
  EXPECT_EQ(cuda_host::order_dependence(run_count<false>),
            "blocks reversed: element 0 is 0, in order it is 3");
}

__global__ void divergent_barrier() {
  if (threadIdx.x < 40) __syncthreads();
}
__global__ void partial_sum() {
  if (threadIdx.x < 31) warp_sum(1.0f);
}
TEST_F(Planted, ThreadsThatWaitForThoseThatHaveReturned) {
  launch(divergent_barrier, {1, 64, 0, compute()});
  expect_in(
      "block (0,0,0) waits for ever: 24 threads have returned, 40 threads wait in __syncthreads "
      "at ",
      cuda_host::complaint());
  launch(partial_sum, {1, 32, 0, compute()});
  const std::string text = cuda_host::complaint();
  expect_in("1 threads have returned, 31 threads wait in __shfl_xor_sync at ", text);
  expect_in("partial_sum() at ", text);
}

TEST_F(Planted, SharedMemoryTooSmall) {
  const Floats y(64);
  launch(reverse<true>, {1, 64, 63 * sizeof(float), compute()}, y);
  expect_in("writes past the end of its 252 bytes of shared memory", cuda_host::complaint());
}

// ---- between streams

template <bool with_event> std::vector<float> run_on_two_streams() {
  const OwnStream first;
  Event filled(Device::cuda);
  const Floats x(100), y(100);
  launch(fill, {1, 32, 0, first}, x, 100, 1.0f);
  filled.record(first);
  if (with_event) filled.hold(compute());
  launch(add, {2, 32, 0, compute()}, x, y, 100, 1.0f);
  return y.read(compute());
}
TEST_F(PlantedRace, MissingStreamWaitEvent) {
  EXPECT_EQ(cuda_host::order_dependence(run_on_two_streams<true>), "");
  expect_in("streams reversed: element 0 is",
            cuda_host::order_dependence(run_on_two_streams<false>));
}

TEST_F(Planted, WaitForAnEventOfACaptureThatHasEnded) {
  Event event(Device::cuda);
  cudaGraph_t graph = nullptr;
  CUDA_CHECK(cudaStreamBeginCapture(compute(), cudaStreamCaptureModeThreadLocal));
  launch(divergent_barrier, {1, 32, 0, compute()});
  event.record(compute());
  CUDA_CHECK(cudaStreamEndCapture(compute(), &graph));
  expect_in("in a capture, which has ended", refusal([&] { event.hold(compute()); }));
  cudaGraphDestroy(graph);
}

// ---- misuse by the host

TEST_F(Planted, HostTouchesDeviceMemory) {
  const Floats y(4);
  EXPECT_DEATH(y[2] = 1, "host code touches byte 8 of device allocation #[0-9]+ \\(16 bytes\\)");
}

TEST_F(Planted, ACopyPastTheEnd) {
  const Floats x(4), y(8);
  expect_in("the source of a copy is bytes 0 to 32 of device allocation #",
            refusal([&] { CUDA_CHECK(cudaMemcpyAsync(y, x, 32, cudaMemcpyDefault, compute())); }));
}

TEST_F(Planted, FreedTwiceAndNever) {
  void *twice, *never;
  CUDA_CHECK(cudaMalloc(&twice, 4));
  CUDA_CHECK(cudaMalloc(&never, 8));
  CUDA_CHECK(cudaFree(twice));
  expect_in("is freed twice", refusal([=] { CUDA_CHECK(cudaFree(twice)); }));
  cudaGetLastError();
  expect_in("(8 bytes) was never freed", cuda_host::complaint());
}

// ---- graphs

TEST_F(Planted, CaptureThatCannotBe) {
  const OwnStream side;
  Event fork(Device::cuda);
  cudaGraph_t graph = nullptr;
  CUDA_CHECK(cudaStreamBeginCapture(compute(), cudaStreamCaptureModeThreadLocal));
  expect_in("an allocation while a stream is captured", refusal([] { Floats(1); }));
  expect_in("a synchronization while a stream is captured",
            refusal([] { synchronize(compute()); }));
  fork.record(compute());
  fork.hold(side);
  launch(divergent_barrier, {1, 32, 0, side});
  expect_in("forked in the capture and not joined",
            refusal([&] { CUDA_CHECK(cudaStreamEndCapture(compute(), &graph)); }));
  cudaGraphDestroy(graph);
}

}  // namespace
