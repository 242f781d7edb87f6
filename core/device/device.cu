// GPU part of core/device/device.h: one GPU, non-blocking streams, ordered by events only.
#include <array>
#include <cstring>
#include <string>
#include "core/base/library.h"
#include "core/base/module_path.h"
#include "core/device/cuda.h"
#include "core/device/device_info.h"

namespace bellows {

namespace cuda {

namespace {

struct Launched {
  const char* op;
  const ModuleSite* site;
};
constexpr size_t kRemembered = 4;
thread_local std::array<Launched, kRemembered> remembered;
thread_local size_t launched = 0;

std::string name(const Launched& launch) {
  const char* const op = launch.op ? launch.op : "a kernel";
  return launch.site->path.empty() ? cat(op) : cat(op, " in module '", launch.site->path, "'");
}

// Lists the latest launches, newest first.
std::string last_launches() {
  std::string text;
  for (size_t i = 0; i < std::min(launched, kRemembered); ++i)
    text += (i ? ", " : "") + name(remembered[(launched - 1 - i) % kRemembered]);
  return text.empty() ? "none" : text;
}

}  // namespace

const Limits& limits() {
  static const Limits read = [] {
    int device = 0;
    CUDA_CHECK(cudaGetDevice(&device));
    const auto attribute = [&](cudaDeviceAttr which) {
      int value = 0;
      CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device));
      return value;
    };
    return Limits{attribute(cudaDevAttrMultiProcessorCount),
                  attribute(cudaDevAttrMaxThreadsPerMultiProcessor),
                  attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin),
                  attribute(cudaDevAttrL2CacheSize),
                  10 * attribute(cudaDevAttrComputeCapabilityMajor) +
                      attribute(cudaDevAttrComputeCapabilityMinor)};
  }();
  return read;
}

// Selects the chosen GPU on this thread; the runtime starts each thread on GPU 0. Launches, events
// and allocations, but not copies, fail on a stream of another GPU.
static void enter_gpu() {
  thread_local int entered = 0;
  if (const int gpu = chosen_gpu(); gpu != entered) {
    CUDA_CHECK(cudaSetDevice(gpu));
    entered = gpu;
  }
}

void note_launch() {
  enter_gpu();
  remembered[launched++ % kRemembered] = {running_kernel(), current_site()};
}

// True for errors of the launch itself. A launch also reports faults of earlier kernels.
static bool is_of_a_launch(cudaError_t status) {
  return status == cudaErrorInvalidConfiguration || status == cudaErrorInvalidValue ||
         status == cudaErrorLaunchOutOfResources || status == cudaErrorNoKernelImageForDevice ||
         status == cudaErrorInvalidDeviceFunction;
}

void refuse(const char* call, cudaError_t status) {
  const char* const text = cudaGetErrorString(status);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error: the device still works
    fail(Exit::memory, "out of cuda memory: ", call, "; try a smaller data.batch_size");
  }
  if (running_kernel() && std::strstr(call, "cudaLaunch") && is_of_a_launch(status))
    fail(Exit::internal, name({running_kernel(), current_site()}), ": the launch failed: ", text);
  fail(Exit::internal, "cuda: ", text, "; the last kernels were ", last_launches(),
       "; set CUDA_LAUNCH_BLOCKING=1 to find the one that failed  [", call, "]");
}

}  // namespace cuda

using cuda::enter_gpu, cuda::native;

static int count() {
  if (is_planted("libcuda.so.1")) return 0;  // the CUDA runtime would load it
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess ? devices : 0;
}

// Allows allocations during a capture. They do not invalidate it, but CUDA refuses them by default.
class Relaxed {
 public:
  Relaxed() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~Relaxed() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  Relaxed(Relaxed&&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

static void* allocate(size_t bytes) {
  enter_gpu();
  const Relaxed in_a_capture;
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) return cudaGetLastError(), nullptr;
  cuda::check(status, "cudaMalloc");
  return memory;
}
// Called by destructors, so it must not throw. The next checked call reports the error.
static void release(void* memory, size_t) { cudaFree(memory); }

static size_t available() {
  enter_gpu();
  size_t free = 0, all = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &all));
  return free;
}

static void* allocate_pinned(size_t bytes) {
  enter_gpu();
  void* memory = nullptr;
  const cudaError_t status = cudaMallocHost(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) return cudaGetLastError(), nullptr;
  cuda::check(status, "cudaMallocHost");
  return memory;
}
static void release_pinned(void* memory, size_t) { cudaFreeHost(memory); }

static void copy(void* to, const void* from, size_t bytes, Stream stream) {
  if (bytes) CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native(stream)));
}

static void set(void* memory, int byte, size_t bytes, Stream stream) {
  if (bytes) CUDA_CHECK(cudaMemsetAsync(memory, byte, bytes, native(stream)));
}

static Stream make_stream() {
  enter_gpu();
  cudaStream_t stream = nullptr;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return {Device::cuda, stream};
}
static void synchronize_stream(Stream stream) { CUDA_CHECK(cudaStreamSynchronize(native(stream))); }

static void* make_event(bool timed) {
  enter_gpu();
  cudaEvent_t event = nullptr;
  CUDA_CHECK(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming));
  return event;
}
static cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }
static bool ready(void* event) {
  enter_gpu();
  const cudaError_t status = cudaEventQuery(event_of(event));
  if (status == cudaErrorNotReady) return cudaGetLastError(), false;
  cuda::check(status, "cudaEventQuery");
  return true;
}

// Thread-local mode: calls of loader threads do not invalidate the capture.
static void begin_capture(Stream stream) {
  CUDA_CHECK(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal));
}
static void* end_capture(Stream stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  CUDA_CHECK(cudaStreamEndCapture(native(stream), &graph));
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  CUDA_CHECK(cudaGraphDestroy(graph));
  cuda::check(status, "cudaGraphInstantiate");
  return executable;
}
// Cleans up after an error. The caller reports the error.
static void drop_capture(Stream stream) {
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(native(stream), &graph) == cudaSuccess) cudaGraphDestroy(graph);
  cudaGetLastError();
}
static void launch_graph(void* graph, Stream stream) {
  CUDA_CHECK(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), native(stream)));
}

static double ms(void* begin, void* end) {
  float elapsed = 0;
  CUDA_CHECK(cudaEventElapsedTime(&elapsed, event_of(begin), event_of(end)));
  return elapsed;
}

static const Provide gpu(
    device_apis[int(Device::cuda)],
    {.count = count,
     .allocate = allocate,
     .release = release,
     .available = available,
     .l2_bytes = [] { return size_t(cuda::limits().l2_bytes); },
     .allocate_pinned = allocate_pinned,
     .release_pinned = release_pinned,
     .copy = copy,
     .set = set,
     .make_stream = make_stream,
     .synchronize = synchronize_stream,
     .make_event = make_event,
     .free_event = [](void* event) { cudaEventDestroy(event_of(event)); },
     .record = [](void* event,
                  Stream s) { CUDA_CHECK(cudaEventRecord(event_of(event), native(s))); },
     .wait = [](Stream s, void* e) { CUDA_CHECK(cudaStreamWaitEvent(native(s), event_of(e), 0)); },
     .ready = ready,
     .ms = ms,
     .begin_capture = begin_capture,
     .end_capture = end_capture,
     .drop_capture = drop_capture,
     .launch_graph = launch_graph,
     .free_graph = [](void* g) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(g)); }});

}  // namespace bellows
