// Streams and events that a test owns. Those of core/device/device.h are never destroyed.
#pragma once
#include "core/device/cuda.h"

namespace cuda_host {

class OwnEvent {
 public:
  OwnEvent() { CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~OwnEvent() { cudaEventDestroy(event_); }
  OwnEvent(OwnEvent&&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class OwnStream {
 public:
  OwnStream() { CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~OwnStream() { cudaStreamDestroy(stream_); }
  OwnStream(OwnStream&&) = delete;
  operator cudaStream_t() const { return stream_; }
  void record(const OwnEvent& event) const { CUDA_CHECK(cudaEventRecord(event, stream_)); }
  void wait(const OwnEvent& event) const { CUDA_CHECK(cudaStreamWaitEvent(stream_, event, 0)); }
  void synchronize() const { CUDA_CHECK(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

// The stream that most tests use; never destroyed.
inline const OwnStream& compute() {
  static const OwnStream& stream = *new OwnStream;
  return stream;
}

}  // namespace cuda_host
