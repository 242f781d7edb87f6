#include "core/device/device.h"
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include "core/base/check.h"
#include "core/base/module_path.h"
#include "core/base/round.h"
#include "core/base/trace.h"
#include "core/device/device_info.h"
#include "core/device/sync_guard.h"
#include "core/device/topology.h"

namespace bellows {

const DeviceApi& api_of(Device device) {
  const DeviceApi& api = device_apis[static_cast<int>(device)];
  CHECK(api.allocate, "this build has no ", device, " device");
  return api;
}

int device_count(Device device) {
  const DeviceApi& api = device_apis[static_cast<int>(device)];
  return api.count ? api.count() : 0;
}

// tests/cuda_host provides a device that works without a driver, which is not an error.
std::string why_no_device(Device device) {
  if (device == Device::cpu) return "";
  const CudaReport report = cuda_report();
  const int usable = device_count(device);
  if (usable > 0 && report.gpus.empty()) return "";
  const std::string trouble = cuda_trouble(report);
  return usable > 0 || !trouble.empty() ? trouble
                                        : "the driver has a GPU that the CUDA runtime cannot use";
}

static constexpr int kNoGpu = -1;
static constinit std::atomic<int> chosen{kNoGpu};

void choose_gpu(int number) {
  const int gpus = device_count(Device::cuda);
  CHECK(gpus == 0 || number < gpus, "device: cuda:", number, ", but the number of GPUs is ", gpus,
        ", counted from cuda:0");
  int before = kNoGpu;
  CHECK(chosen.compare_exchange_strong(before, number) || before == number, "device: cuda:", number,
        ", but this process already uses cuda:", before);
}
int chosen_gpu() { return std::max(chosen.load(std::memory_order_relaxed), 0); }

// Created on first use and never destroyed: the CUDA runtime may end before static destructors run.
Stream stream_of(Device device, StreamUse use) {
  if (device == Device::cpu) return {};
  static const std::array streams = [] {
    const auto& make = api_of(Device::cuda).make_stream;
    return std::array{make(), make()};
  }();
  return streams[static_cast<int>(use)];
}

static Stream& guarded(Device device) {
  static thread_local std::array<Stream, kDevices> streams;
  return streams[static_cast<int>(device)];
}

Stream current_stream(Device device) {
  if (device == Device::cpu) return {};
  const Stream stream = guarded(device);
  return stream.native ? stream : stream_of(device);
}

// ---- waits of the host

static OnSync& in_force() {
  static thread_local OnSync on_sync = OnSync::ignore;
  return on_sync;
}

SyncGuard::SyncGuard(OnSync on_sync) : Scoped(in_force(), on_sync) {}

namespace {
struct Reports {
  std::mutex mutex;
  std::set<std::string> known;
  std::vector<std::string> fresh;
};
}  // namespace
static Reports& reports() {
  static Reports& all = *new Reports;
  return all;
}

std::vector<std::string> take_sync_reports() {
  const std::lock_guard lock(reports().mutex);
  return std::exchange(reports().fresh, {});
}

static void note_sync(const std::source_location& at) {
  const OnSync on_sync = in_force();
  if (on_sync == OnSync::ignore) return;
  trace::count<"sync.guarded">();
  const std::string& path = current_site()->path;
  std::string text = cat("sync_guard: the host waits for the device at ", at.file_name(), ":",
                         at.line());  // "core/tensor/copy.cpp:27"
  if (running_kernel()) text += cat(", in ", running_kernel());
  if (!path.empty()) text += cat(", in module '", path, "'");
  if (on_sync == OnSync::refuse) fail(Exit::internal, text);
  const std::lock_guard lock(reports().mutex);
  if (reports().known.insert(text).second) reports().fresh.push_back(text);
}

void synchronize(Stream stream, const std::source_location& at) {
  trace::count<"sync.count">();
  const trace::Range range("synchronize");
  if (stream.device != Device::cpu) note_sync(at);
  api_of(stream.device).synchronize(stream);
}

StreamGuard::StreamGuard(Stream stream) : Scoped(guarded(stream.device), stream) {}

Event::Event(Device device, bool timed)
    : device_(device), native_(api_of(device).make_event(timed)) {}
Event::~Event() { api_of(device_).free_event(native_); }
void Event::record(Stream stream) { api_of(device_).record(native_, stream); }
void Event::hold(Stream stream) const { api_of(device_).wait(stream, native_); }
bool Event::ready() const { return api_of(device_).ready(native_); }

// ---- the CPU: all work is done when the call returns

static constexpr size_t kAlign = 64;  // a cache line, and the widest vector

static void* allocate_cpu(size_t bytes) {
  return std::aligned_alloc(kAlign, round_up(bytes, kAlign));
}
static void release_cpu(void* memory, size_t) { std::free(memory); }
static void copy_cpu(void* to, const void* from, size_t bytes, Stream) {
  if (bytes) std::memcpy(to, from, bytes);
}
static void set_cpu(void* memory, int byte, size_t bytes, Stream) {
  if (bytes) std::memset(memory, byte, bytes);
}

static size_t available_cpu() {
  const std::string kib = value_in("/proc/meminfo", "MemAvailable");
  return kib.empty() ? SIZE_MAX : std::stoull(kib) * 1024;
}

// An event holds the time of its record, in ns.
static int64_t* time_of(void* event) { return static_cast<int64_t*>(event); }
static double ms(void* begin, void* end) { return double(*time_of(end) - *time_of(begin)) * 1e-6; }

static const Provide cpu(device_apis[int(Device::cpu)],
                         {.count = [] { return 1; },
                          .allocate = allocate_cpu,
                          .release = release_cpu,
                          .available = available_cpu,
                          .allocate_pinned = allocate_cpu,
                          .release_pinned = release_cpu,
                          .copy = copy_cpu,
                          .set = set_cpu,
                          .make_stream = [] { return Stream{}; },
                          .synchronize = [](Stream) {},
                          .make_event = [](bool) -> void* { return new int64_t(0); },
                          .free_event = [](void* event) { delete time_of(event); },
                          .record = [](void* e, Stream) { *time_of(e) = trace::now_ns(); },
                          .wait = [](Stream, void*) {},
                          .ready = [](void*) { return true; },
                          .ms = ms});

}  // namespace bellows
