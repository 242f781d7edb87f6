// The functions of the CUDA runtime. A missing function is a link error; add it here.
#include "tests/cuda_host/runtime.h"
#include <dlfcn.h>
#include <bit>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>
#include "tests/cuda_host/block.h"
#include "tests/cuda_host/memory.h"

namespace cuda_host {

namespace {

constexpr size_t kDeviceBytes = size_t{1} << 30;
// Those of an H200.
constexpr int kShared = 48 << 10, kSharedOptIn = 227 << 10, kResidentThreads = 2048;

Fault take_error() { return std::exchange(runtime.last, {cudaSuccess, "no error"}); }

// "void forward<float>(float const*, int) at ops/layer_norm.cu:16"
std::string name_of(const void* kernel) {
  static std::map<const void*, std::string> known;
  if (const auto found = known.find(kernel); found != known.end()) return found->second;
  Dl_info module{};
  dladdr(kernel, &module);
  const size_t offset = static_cast<const char*>(kernel) - static_cast<char*>(module.dli_fbase);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");  // has all kernels
  std::FILE* pipe =
      popen(bellows::cat("addr2line -Cfpe ", program, " 0x", std::hex, offset).c_str(), "r");
  char line[4096] = "?";
  if (pipe && std::fgets(line, sizeof(line), pipe)) line[std::strcspn(line, "\n")] = 0;
  if (pipe) pclose(pipe);
  return known[kernel] = line;
}

void require_launchable(const cudaLaunchConfig_t& config) {
  const auto [x, y, z] = config.blockDim;
  const dim3 grid = config.gridDim;
  REQUIRE(x * y * z >= 1 && x * y * z <= 1024 && z <= 64 && grid.x >= 1 && grid.y >= 1 &&
              grid.z >= 1 && grid.x <= 0x7fffffff && grid.y <= 65535 && grid.z <= 65535,
          cudaErrorInvalidConfiguration, "launch of a grid of ", grid.x, "x", grid.y, "x", grid.z,
          " blocks of ", x, "x", y, "x", z, " threads");
  REQUIRE(config.dynamicSmemBytes <= kShared, cudaErrorInvalidValue, "launch with ",
          config.dynamicSmemBytes, " bytes of shared memory, the limit is ", kShared);
}

// Pageable host memory behaves as CUDA documents: it is read before the call returns, and also
// written before it returns, which makes such a copy a synchronization.
void copy(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  require_stream(stream);
  const Place target = place_of(to), source = place_of(from);
  const int direction = (target == Place::device ? 1 : 0) + (source == Place::device ? 2 : 0);
  require_range(to, bytes, "the target of a copy");
  require_range(from, bytes, "the source of a copy");
  const auto name = [bytes] { return bellows::cat("a copy of ", bytes, " bytes"); };
  const auto first = static_cast<const std::byte*>(from);
  const Task how{Task::copy, cudaMemcpyKind(direction)};
  std::function<void()> work = [=] { std::memcpy(to, from, bytes); };
  if (source == Place::pageable)
    work = [=, staged = std::vector(first, first + bytes)] {
      std::memcpy(to, staged.data(), bytes);
    };
  enqueue(
      stream, name, [work = std::move(work)] { run_watched(work); }, how);
  if (target == Place::pageable) synchronize(stream->next_after);
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel,
                   std::function<void()> thread) {
  return api([&] {
    require_same_gpu("a launch");
    require_stream(config.stream);
    require_launchable(config);
    const Grid grid{config.gridDim, config.blockDim, config.dynamicSmemBytes, std::move(thread)};
    const auto name = [kernel] { return "kernel " + name_of(kernel); };
    enqueue(config.stream, name, [grid] { run(grid); });
  });
}

void reset(const Schedule& wanted) {
  const std::lock_guard lock(runtime.mutex);
  const Unwatched harness;
  schedule = wanted;
  dice.seed(wanted.seed);
  forget_pending();
  forget_memory();
  runtime.last = {cudaSuccess, "no error"};
}

void use(const Schedule& wanted) {
  const std::lock_guard lock(runtime.mutex);
  schedule = wanted;
  dice.seed(wanted.seed);
}

static void finish_all() {
  api([] {
    run_all();
    check_memory(true);
  });
}

std::string complaint() {
  finish_all();
  const std::lock_guard lock(runtime.mutex);
  return runtime.last.code == cudaSuccess ? leaks() : take_error().text;
}

std::string settle() {
  finish_all();
  const std::lock_guard lock(runtime.mutex);
  const Unwatched harness;
  forget_pending();
  forget_freed_memory();
  return runtime.last.code == cudaSuccess ? "" : take_error().text;
}

std::string order_dependence(const std::function<std::vector<float>()>& run) {
  std::vector<float> expected;
  for (const Schedule& each : schedules(8)) {
    reset(each);
    const std::vector<float> answer = run();
    if (const std::string text = complaint(); !text.empty()) return bellows::cat(each, ": ", text);
    if (expected.empty()) expected = answer;
    for (size_t i = 0; i < answer.size(); ++i)
      if (std::bit_cast<uint32_t>(answer[i]) != std::bit_cast<uint32_t>(expected[i]))
        return bellows::cat(each, ": element ", i, " is ", answer[i], ", in order it is ",
                            expected[i]);
  }
  return "";
}

}  // namespace cuda_host

using namespace cuda_host;

extern "C" {

// ---- device and errors

cudaError_t cudaGetDeviceCount(int* number) { return *number = kGpus, cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { return *device = thread_gpu, cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
  return api([=] {
    REQUIRE(device >= 0 && device < kGpus, cudaErrorInvalidDevice, "no GPU ", device);
    thread_gpu = device;
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  static const std::map<cudaDeviceAttr, int> attributes = {
      {cudaDevAttrMultiProcessorCount, 132},
      {cudaDevAttrMaxThreadsPerMultiProcessor, kResidentThreads},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, kSharedOptIn},
      {cudaDevAttrL2CacheSize, 1 << 20},  // small: searches write more than that before each run
      {cudaDevAttrComputeCapabilityMajor, 9},
      {cudaDevAttrComputeCapabilityMinor, 0}};
  return api([=] {
    const auto known = attributes.find(attribute);
    REQUIRE(known != attributes.end(), cudaErrorInvalidValue, "cudaDeviceGetAttribute ", attribute);
    *value = known->second;
  });
}
cudaError_t cudaGetLastError() {
  const std::lock_guard lock(runtime.mutex);
  return runtime.last.sticky ? runtime.last.code : take_error().code;
}
const char* cudaGetErrorString(cudaError_t error) {
  static thread_local std::string text;
  const std::lock_guard lock(runtime.mutex);
  text = error == runtime.last.code ? runtime.last.text : bellows::cat("CUDA error ", int(error));
  return text.c_str();
}
// As if every kernel had few enough registers.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads,
                                                          size_t shared) {
  *blocks =
      int(std::min<size_t>(kResidentThreads / threads, kSharedOptIn / std::max<size_t>(shared, 1)));
  return cudaSuccess;
}

cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

// ---- memory

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return api([=] {
    require_same_gpu("an allocation");
    if (capture_mode != cudaStreamCaptureModeRelaxed) require_no_capture("an allocation");
    REQUIRE(bytes_in_use() + bytes <= kDeviceBytes, cudaErrorMemoryAllocation,
            "out of memory: ", bytes, " bytes wanted, ", kDeviceBytes - bytes_in_use(), " free");
    *memory = allocate(bytes, Place::device);
  });
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  return api([=] {
    require_same_gpu("an allocation of pinned memory");
    if (capture_mode != cudaStreamCaptureModeRelaxed) require_no_capture("an allocation");
    *memory = allocate(bytes, Place::pinned);
  });
}
// Freeing waits for the whole device, as on a GPU.
static cudaError_t free_after_everything(void* memory, Place place) {
  return api([=] {
    if (!memory) return;
    synchronize({});
    run_all();
    release(memory, place);
  });
}
cudaError_t cudaFree(void* memory) { return free_after_everything(memory, Place::device); }
cudaError_t cudaFreeHost(void* memory) { return free_after_everything(memory, Place::pinned); }
cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  return api([=] { *available = (*total = kDeviceBytes) - bytes_in_use(); });
}
// The addresses say the direction, as the product's cudaMemcpyDefault asks for.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return api([=] { copy(to, from, bytes, stream); });
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return api([=] {
    require_stream(stream);
    require_range(to, bytes, "the target of a memset");
    enqueue(
        stream, [=] { return bellows::cat("a memset of ", bytes, " bytes"); },
        [=] { run_watched([=] { std::memset(to, value, bytes); }); }, {Task::set});
  });
}

}  // extern "C"
