// State that changes from step to step, in device memory. Kernels read it by pointer, on the CPU
// too, so one captured graph serves every step, and a skipped update needs no host.
#pragma once
#include "core/tensor/kernel.h"

namespace bellows {

struct StepState {
  int64_t forwards = 0;  // number of forward passes begun; a key of dropout's random numbers
  int64_t applied = 0;   // updates that changed the parameters
  int64_t skipped = 0;   // updates skipped because of a non-finite gradient
  int64_t shift = 0;     // schedule_index() - applied; 0 unless a branch changed an epoch's length
  float loss_scale = 1, inverse_scale = 1;
  int32_t good_updates = 0;  // applied updates since the loss scale changed
  float grad_norm = 0;       // norm of the last update's gradients, before clipping
  int32_t found_inf = 0;     // 1: not all reduced gradients are finite, so all ranks skip

  HD int64_t schedule_index() const { return applied + shift; }
};

static_assert(sizeof(StepState) % sizeof(int64_t) == 0);

// A StepState on a device. The host reads it at log steps only: read() waits for the device.
class DeviceStepState {
 public:
  explicit DeviceStepState(Device device);
  StepState* get() const { return reinterpret_cast<StepState*>(words_.bytes()); }
  const Tensor& tensor() const { return words_; }  // the whole state as i64, for collectives
  StepState read() const;
  void write(const StepState& state);
  void begin_forward() const;  // increments `forwards` on the device
  Tensor loss_scale() const;   // a view of the state's f32 scalar, on the device
  Device device() const { return words_.device(); }

 private:
  Tensor words_;
};

namespace kernels {
inline constinit Kernel<void(const Tensor& state)> begin_forward{"begin_forward"};
}

}  // namespace bellows
