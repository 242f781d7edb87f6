#include "core/device/cuda.h"
#include "core/device/timer.h"

namespace bellows {

static cudaEvent_t event_of(void* moment) { return static_cast<cudaEvent_t>(moment); }

static void* mark(Stream stream) {
  cudaEvent_t event = nullptr;
  CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDefault));
  CUDA_CHECK(cudaEventRecord(event, cuda::native(stream)));
  return event;
}

static double ms(void* begin, void* end) {
  float elapsed = 0;
  CUDA_CHECK(cudaEventElapsedTime(&elapsed, event_of(begin), event_of(end)));
  return elapsed;
}

static const AddClock gpu(Device::cuda,
                          {.mark = mark,
                           .forget = [](void* moment) { cudaEventDestroy(event_of(moment)); },
                           .ms = ms});

}  // namespace bellows
