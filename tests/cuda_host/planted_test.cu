// Plants faults and checks the message that cuda_host gives for each.
#include <gtest/gtest.h>
#include <thread>
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
    CUDA_CHECK(
        cudaMemcpyAsync(values.data(), data, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
    return values;  // complete: a copy to pageable memory waits
  }

  const int n;
  void* data = nullptr;
};

// n floats of pinned memory.
struct Pinned {
  Pinned(int n, float value) {
    CUDA_CHECK(cudaMallocHost(&data, n * sizeof(float)));
    std::fill_n(begin(), n, value);
  }
  ~Pinned() { cudaFreeHost(data); }
  Pinned(Pinned&&) = delete;
  float* begin() const { return static_cast<float*>(data); }

  void* data = nullptr;
};

void upload(const Floats& to, const Pinned& from, const OwnStream& stream) {
  CUDA_CHECK(cudaMemcpyAsync(to, from.data, to.n * sizeof(float), cudaMemcpyDefault, stream));
}

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

// Returns the message of the Error that `body` throws.
template <class Body> std::string error_of(Body body) {
  try {
    body();
    return "no error";
  } catch (const Error& error) {
    return error.what();
  }
}

// ---- inside a kernel

TEST_F(Planted, WritePastTheEnd) {
  const Floats y(100);
  launch(fill, {1, 128, 0, compute()}, y, 101, 1.0f);
  const std::string text = error_of([] { compute().synchronize(); });
  expect_in("fill(float*, int, float) at ", text);
  expect_in("byte 400 of device allocation #", text);
  expect_in("(400 bytes) was written, which is past its end", text);
}

// The user gets one line and exit code 9.
TEST_F(Planted, AFaultIsToldWithTheLastKernelsAndTheirModules) {
  const Floats y(100);
  {
    const ModuleScope module(site_of("layer1.conv2"));
    const RunningKernel op("conv2d");
    launch(fill, {1, 128, 0, compute()}, y, 101, 1.0f);
  }
  const Refusal fault = refused([] { compute().synchronize(); });
  EXPECT_EQ(fault.exit, Exit::internal);
  expect_in("; the last kernels were conv2d in module 'layer1.conv2'", fault.message);
  EXPECT_EQ(fault.message.find("the launch failed"), std::string::npos) << fault.message;
}

TEST_F(Planted, ALaunchThatFailsIsToldWithItsOpAndModule) {
  const Floats y(1);
  const ModuleScope module(site_of("layer1.conv2"));
  const RunningKernel op("conv2d");
  const Refusal fault = refused([&] { launch(fill, {1, 2048, 0, compute()}, y, 1, 1.0f); });
  EXPECT_EQ(fault.exit, Exit::internal);
  expect_in("conv2d in module 'layer1.conv2': the launch failed: ", fault.message);
}

TEST_F(Planted, WriteToFreedMemory) {
  for (const int n : {8, 1 << 14}) {
    cuda_host::reset();
    const float* const stale = Floats(n);
    launch(fill, {1, 32, 0, compute()}, const_cast<float*>(stale) + n / 2, 4, 0.0f);
    expect_in("was touched after it was freed", cuda_host::complaint());
  }
}

TEST_F(Planted, ReadOfAFreedPage) {
  const Floats y(4);
  const float* const stale = Floats(1 << 14);
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
TEST_F(Planted, DivergentBarrier) {
  launch(divergent_barrier, {1, 64, 0, compute()});
  const std::string text = error_of([] { compute().synchronize(); });
  expect_in("block (0,0,0) waits for ever: threads 0 to 39 wait in __syncthreads at ", text);
  expect_in("threads 40 to 63 have returned", text);
  expect_in("divergent_barrier() at ", text);
}

__global__ void partial_sum(float* y) {
  if (threadIdx.x < 31) y[threadIdx.x] = warp_sum(1.0f);
}
TEST_F(Planted, ShuffleWithoutAllLanes) {
  const Floats y(32);
  launch(partial_sum, {1, 32, 0, compute()}, y);
  const std::string text = error_of([] { compute().synchronize(); });
  expect_in("threads 0 to 30 wait in __shfl_xor_sync at ", text);
  expect_in("threads 31 to 31 have returned", text);
}

TEST_F(Planted, SharedMemoryTooSmall) {
  const Floats y(64);
  launch(reverse<true>, {1, 64, 63 * sizeof(float), compute()}, y);
  expect_in("writes past the end of its 252 bytes of shared memory", cuda_host::complaint());
}

// ---- between streams

template <bool with_event> std::vector<float> run_copy_then_compute() {
  const OwnStream copies;
  const OwnEvent copied;
  const Floats x(100), y(100);
  const Pinned batch(100, 1);
  upload(x, batch, copies);
  copies.record(copied);
  if (with_event) compute().wait(copied);
  launch(add, {2, 32, 0, compute()}, x, y, 100, 1.0f);
  return y.read(compute());
}
TEST_F(PlantedRace, MissingStreamWaitEvent) {
  EXPECT_EQ(cuda_host::order_dependence(run_copy_then_compute<true>), "");
  expect_in("streams reversed: element 0 is",
            cuda_host::order_dependence(run_copy_then_compute<false>));
}

// Models a caching allocator: a block moves from one stream to another.
template <bool with_event> std::vector<float> run_reuse() {
  const OwnStream other;
  const OwnEvent last_use;
  const Floats block(64), y(64);
  launch(fill, {1, 64, 0, compute()}, block, 64, 1.0f);
  launch(add, {1, 64, 0, compute()}, block, y, 64, 1.0f);
  compute().record(last_use);  // the compute stream releases the block
  if (with_event) other.wait(last_use);
  launch(fill, {1, 64, 0, other}, block, 64, 100.0f);  // and the other stream reuses it
  other.synchronize();
  return y.read(compute());
}
TEST_F(PlantedRace, MemoryReusedWhileAnotherStreamUsesIt) {
  EXPECT_EQ(cuda_host::order_dependence(run_reuse<true>), "");
  expect_in("element 0 is 101, in order it is 2", cuda_host::order_dependence(run_reuse<false>));
}

TEST_F(Planted, HostThreadsShareTheDevice) {
  const auto work = [] {
    const OwnStream stream;
    const Floats y(32);
    launch(fill, {1, 32, 0, stream}, y, 32, 2.0f);
    EXPECT_EQ(y.read(stream), std::vector<float>(32, 2));
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(cuda_host::complaint(), "");
}

TEST_F(Planted, WaitForAnEventOfACaptureThatHasEnded) {
  const OwnEvent event;
  cudaGraph_t graph = nullptr;
  CUDA_CHECK(cudaStreamBeginCapture(compute(), cudaStreamCaptureModeGlobal));
  launch(divergent_barrier, {1, 32, 0, compute()});
  compute().record(event);
  CUDA_CHECK(cudaStreamEndCapture(compute(), &graph));
  expect_in("in a capture, which has ended", error_of([&] { compute().wait(event); }));
  cudaGraphDestroy(graph);
}

TEST_F(Planted, HostReadsTooEarly) {
  const Floats y(1);
  const Pinned result(1, -1);
  launch(fill, {1, 32, 0, compute()}, y, 1, 5.0f);
  CUDA_CHECK(cudaMemcpyAsync(result.data, y, sizeof(float), cudaMemcpyDefault, compute()));
  EXPECT_EQ(*result.begin(), -1);
  compute().synchronize();
  EXPECT_EQ(*result.begin(), 5);
}

// Stand-in for a vendor's call in the test build: a CPU loop, run as an operation of the stream.
void vendor_scale(float* x, int n, float factor, const OwnStream& stream) {
  cuda_host::enqueue(
      stream, [] { return "vendor_scale"; },
      [=] {
        for (int i = 0; i < n; ++i) x[i] *= factor;
      });
}
TEST_F(Planted, VendorCallIsAnOperationLikeAnyOther) {
  EXPECT_EQ(cuda_host::order_dependence([] {
              const Floats x(16);
              launch(fill, {1, 32, 0, compute()}, x, 16, 3.0f);
              vendor_scale(x, 16, 2, compute());
              launch(add, {1, 32, 0, compute()}, x, x, 16, 1.0f);
              EXPECT_EQ(x.read(compute()), std::vector<float>(16, 7));
              return x.read(compute());
            }),
            "");
}

// ---- misuse by the host

TEST_F(Planted, HostTouchesDeviceMemory) {
  const Floats y(4);
  EXPECT_DEATH(y[2] = 1, "host code touches byte 8 of device allocation #[0-9]+ \\(16 bytes\\)");
}

TEST_F(Planted, CopiesThatCannotBeRight) {
  const Floats x(4), y(8);
  const auto copy = [&](void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return error_of([=] { CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, kind, compute())); });
  };
  expect_in("the source of a copy is bytes 0 to 32 of device allocation #",
            copy(y, x, 32, cudaMemcpyDefault));
  expect_in("but the addresses say 3", copy(y, x, 16, cudaMemcpyHostToDevice));
}

TEST_F(Planted, FreedTwiceAndNever) {
  void *twice, *never;
  CUDA_CHECK(cudaMalloc(&twice, 4));
  CUDA_CHECK(cudaMalloc(&never, 8));
  CUDA_CHECK(cudaFree(twice));
  expect_in("is freed twice", error_of([=] { CUDA_CHECK(cudaFree(twice)); }));
  cudaGetLastError();
  expect_in("(8 bytes) was never freed", cuda_host::complaint());
}

TEST_F(Planted, LaunchThatCannotBe) {
  EXPECT_EQ(cuda_host::counters().launches, 0);
  expect_in("blocks of 2048x1x1 threads", error_of([] {
              launch(divergent_barrier, {1, 2048, 0, compute()});
            }));
}

// ---- graphs

// y = x + 1 on a second stream, forked from the first and joined to it, then y = y + 2.
void forked_step(const Floats& x, const Floats& y, const OwnStream& side, bool join) {
  const OwnEvent fork, joined;
  compute().record(fork);
  side.wait(fork);
  launch(add, {1, 32, 0, side}, x, y, 64, 1.0f);
  side.record(joined);
  if (join) compute().wait(joined);
  launch(add, {1, 32, 0, compute()}, y, y, 64, 2.0f);
}
template <bool graph> std::vector<float> run_steps() {
  const OwnStream side;
  const Floats x(64), y(64);
  cudaGraph_t captured = nullptr;
  cudaGraphExec_t executable = nullptr;
  if (graph) {
    CUDA_CHECK(cudaStreamBeginCapture(compute(), cudaStreamCaptureModeGlobal));
    forked_step(x, y, side, true);
    CUDA_CHECK(cudaStreamEndCapture(compute(), &captured));
    CUDA_CHECK(cudaGraphInstantiate(&executable, captured, 0));
  }
  launch(fill, {1, 32, 0, compute()}, x, 64, 10.0f);
  for (int step = 0; step < 3; ++step) {
    if (graph) {
      CUDA_CHECK(cudaGraphLaunch(executable, compute()));
    } else {
      forked_step(x, y, side, true);
    }
    launch(add, {1, 32, 0, compute()}, y, x, 64, 0.0f);
  }
  const std::vector<float> answer = x.read(compute());
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(captured);
  return answer;
}
TEST_F(Planted, GraphReplayEqualsEager) {
  EXPECT_EQ(cuda_host::order_dependence(run_steps<false>), "");
  EXPECT_EQ(cuda_host::order_dependence(run_steps<true>), "");
  cuda_host::reset();
  const std::vector<float> eager = run_steps<false>();
  EXPECT_EQ(eager, std::vector<float>(64, 19));
  EXPECT_EQ(cuda_host::counters().launches, 10);
  cuda_host::reset();
  EXPECT_EQ(run_steps<true>(), eager);
  EXPECT_EQ(cuda_host::counters().launches, 6);
  EXPECT_EQ(cuda_host::counters().graph_launches, 3);
  EXPECT_EQ(cuda_host::counters().kernels, 10);
}

TEST_F(Planted, CaptureThatCannotBe) {
  const OwnStream side;
  const Floats x(64), y(64);
  cudaGraph_t graph = nullptr;
  CUDA_CHECK(cudaStreamBeginCapture(compute(), cudaStreamCaptureModeGlobal));
  expect_in("an allocation while a stream is captured", error_of([] { Floats(1); }));
  expect_in("a synchronization while a stream is captured",
            error_of([] { compute().synchronize(); }));
  forked_step(x, y, side, false);
  expect_in("forked in the capture and not joined",
            error_of([&] { CUDA_CHECK(cudaStreamEndCapture(compute(), &graph)); }));
  cudaGraphDestroy(graph);
}

}  // namespace
