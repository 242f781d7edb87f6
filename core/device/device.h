// Devices, streams and events. A process uses one device of each type.
//
// core/device/device.cpp implements the CPU, where work is in order and done at once.
// core/device/device.cu adds the GPU. The rest of core/ uses a device through its DeviceApi only.
#pragma once
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <source_location>
#include <string>
#include "core/base/registry.h"
#include "core/base/scoped.h"

namespace bellows {

enum class Device : uint8_t { cpu, cuda };
inline constexpr int kDevices = 2;
inline std::ostream& operator<<(std::ostream& out, Device device) {
  return out << (device == Device::cpu ? "cpu" : "cuda");
}

// A queue of work. `native` is the runtime's handle, null on the CPU.
struct Stream {
  Device device = Device::cpu;
  void* native = nullptr;
  bool operator==(const Stream&) const = default;
};

struct DeviceApi {
  int (*count)() = nullptr;  // devices on this machine; 0 without a driver; never throws
  void* (*allocate)(size_t bytes) = nullptr;
  void (*release)(void* memory, size_t bytes) = nullptr;
  size_t (*available)() = nullptr;  // bytes that a process can still get
  size_t (*l2_bytes)() = nullptr;   // L2 cache that all multiprocessors share; null on the CPU
  // Page-locked host memory, which the device copies without the CPU. Null: out of memory.
  void* (*allocate_pinned)(size_t bytes) = nullptr;
  void (*release_pinned)(void* memory, size_t bytes) = nullptr;
  // Runs in order on the stream, asynchronously if the device supports it.
  void (*copy)(void* to, const void* from, size_t bytes, Stream stream) = nullptr;
  void (*set)(void* memory, int byte, size_t bytes, Stream stream) = nullptr;
  Stream (*make_stream)() = nullptr;
  void (*synchronize)(Stream stream) = nullptr;
  void* (*make_event)(bool timed) = nullptr;
  void (*free_event)(void* event) = nullptr;
  void (*record)(void* event, Stream stream) = nullptr;
  void (*wait)(Stream stream, void* event) = nullptr;  // later work on the stream waits
  bool (*ready)(void* event) = nullptr;
  double (*ms)(void* begin, void* end) = nullptr;  // between two timed events that are ready
  // Graphs; null if the device has none.
  void (*begin_capture)(Stream stream) = nullptr;
  void* (*end_capture)(Stream stream) = nullptr;
  void (*drop_capture)(Stream stream) = nullptr;
  void (*launch_graph)(void* graph, Stream stream) = nullptr;
  void (*free_graph)(void* graph) = nullptr;
};
inline constinit DeviceApi device_apis[kDevices] = {};  // Provide sets an element

const DeviceApi& api_of(Device device);    // throws if this build lacks the device, exit 2
int device_count(Device device);           // 0 also if this build lacks the device
std::string why_no_device(Device device);  // reason, as "no CUDA driver"; "" if usable

// Selects the GPU of this process, numbered as the CUDA runtime numbers the visible ones. Applies
// to all threads. Call it before other work on the GPU. Throws Error, exit 2, if there are GPUs
// but not this one, or if another one was selected before.
void choose_gpu(int number);
int chosen_gpu();  // 0 if none was selected

// Streams of a device: for ops, and for copies of batches.
enum class StreamUse : uint8_t { compute, copy };
Stream stream_of(Device device, StreamUse use = StreamUse::compute);
Stream current_stream(Device device);  // this thread's; compute outside StreamGuards
// Makes the host wait for the stream. Increments sync.count and informs the SyncGuard
// (core/device/sync_guard.h).
void synchronize(Stream stream, const std::source_location& at = std::source_location::current());

// Sets the current stream of this thread during its lifetime.
struct StreamGuard : Scoped<Stream> {
  explicit StreamGuard(Stream stream);
};

// A point in a stream that other streams can wait for.
class Event {
 public:
  explicit Event(Device device, bool timed = false);  // timed: a Moment (core/device/timer.h)
  ~Event();
  Event(Event&&) = delete;
  void record(Stream stream);
  void hold(Stream stream) const;  // later work on `stream` waits for this event
  bool ready() const;              // true also if never recorded

 protected:
  Device device_;
  void* native_;
};

}  // namespace bellows
