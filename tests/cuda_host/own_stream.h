// Streams that a test owns. Those of core/device/device.h are never destroyed.
#pragma once
#include "core/device/cuda.h"

namespace cuda_host {

class OwnStream {
 public:
  OwnStream() { CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~OwnStream() { cudaStreamDestroy(stream_); }
  OwnStream(OwnStream&&) = delete;
  operator cudaStream_t() const { return stream_; }
  operator bellows::Stream() const { return {bellows::Device::cuda, stream_}; }

 private:
  cudaStream_t stream_ = nullptr;
};

// The stream that most tests use; never destroyed.
inline const OwnStream& compute() {
  static const OwnStream& stream = *new OwnStream;
  return stream;
}

}  // namespace cuda_host
