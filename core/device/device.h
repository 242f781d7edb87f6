// Devices, streams and events. One device of a kind per process.
//
// core/device/device.cpp has the CPU, where everything is in order and done at once;
// core/device/device.cu adds the GPU. A DeviceApi is all that the rest of core knows of either.
#pragma once
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <source_location>
#include <string>
#include "core/base/registry.h"

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
  int (*count)() = nullptr;  // devices on this machine; 0, never an error, without a driver
  void* (*allocate)(size_t bytes) = nullptr;
  void (*release)(void* memory, size_t bytes) = nullptr;
  size_t (*available)() = nullptr;  // bytes that nobody holds, of any process
  // Host memory that the device copies from and to by itself. Null: out of memory.
  void* (*allocate_pinned)(size_t bytes) = nullptr;
  void (*release_pinned)(void* memory, size_t bytes) = nullptr;
  // In order on the stream; returns before it is done where the device allows it.
  void (*copy)(void* to, const void* from, size_t bytes, Stream stream) = nullptr;
  void (*set)(void* memory, int byte, size_t bytes, Stream stream) = nullptr;
  Stream (*make_stream)() = nullptr;
  void (*synchronize)(Stream stream) = nullptr;
  void* (*make_event)() = nullptr;
  void (*free_event)(void* event) = nullptr;
  void (*record)(void* event, Stream stream) = nullptr;
  void (*wait)(Stream stream, void* event) = nullptr;  // later work of the stream waits
  bool (*ready)(void* event) = nullptr;
  // Graphs; null where a device has none.
  void (*begin_capture)(Stream stream) = nullptr;
  void* (*end_capture)(Stream stream, int64_t& operations) = nullptr;
  void (*drop_capture)(Stream stream) = nullptr;
  void (*launch_graph)(void* graph, Stream stream) = nullptr;
  void (*free_graph)(void* graph) = nullptr;
};
inline constinit DeviceApi device_apis[kDevices] = {};
struct AddDevice {
  AddDevice(Device device, const DeviceApi& api, const char* file = __builtin_FILE()) {
    registered_files().insert(file);
    device_apis[static_cast<int>(device)] = api;
  }
};

const DeviceApi& api_of(Device device);    // refuses a device that this build has no code for
int device_count(Device device);           // 0 also where the build has no code for it
std::string why_no_device(Device device);  // "no CUDA driver"; "" if there is one

// The streams of a device: where ops run, where batches are copied, where gradients travel.
enum class StreamUse : uint8_t { compute, copy, communicate };
Stream stream_of(Device device, StreamUse use = StreamUse::compute);
Stream current_stream(Device device);  // of this thread; compute unless a StreamGuard lives
// The host waits; counted as sync.count, and told to a SyncGuard (core/device/sync_guard.h).
void synchronize(Stream stream, const std::source_location& at = std::source_location::current());

class StreamGuard {
 public:
  explicit StreamGuard(Stream stream);
  ~StreamGuard();
  StreamGuard(StreamGuard&&) = delete;

 private:
  Stream previous_;
};

// A point in a stream that other streams can wait for.
class Event {
 public:
  explicit Event(Device device);
  ~Event();
  Event(Event&&) = delete;
  void record(Stream stream);
  void hold(Stream stream) const;  // work queued there from now on waits for this event
  bool ready() const;              // also if it was never recorded

 private:
  Device device_;
  void* native_;
};

}  // namespace bellows
