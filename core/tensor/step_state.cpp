#include "core/tensor/step_state.h"
#include <cstddef>
#include <cstring>
#include "core/tensor/copy.h"

namespace bellows {

static constexpr int64_t kBytes = sizeof(StepState), kWords = kBytes / sizeof(int64_t);

DeviceStepState::DeviceStepState(Device device) : words_(Shape{kWords}, DType::i64, device) {
  write({});
}

StepState DeviceStepState::read() const {
  const Tensor host = to(Device::cpu, words_);
  StepState state;
  std::memcpy(&state, host.bytes(), kBytes);
  return state;
}

void DeviceStepState::write(const StepState& state) {
  const Tensor host(Shape{kWords}, DType::i64);
  std::memcpy(host.bytes(), &state, kBytes);
  copy_into(words_, host);
}

Tensor DeviceStepState::loss_scale() const {
  constexpr int64_t at = offsetof(StepState, loss_scale) / sizeof(float);
  return Tensor(words_.storage(), {}, DType::f32).view({}, {}, at);
}

void DeviceStepState::begin_forward() const { kernels::begin_forward(words_); }

static void begin_forward_cpu(const Tensor& state) {
  ++reinterpret_cast<StepState*>(state.bytes())->forwards;
}
static const bool cpu = kernels::begin_forward.on(Device::cpu, begin_forward_cpu);

}  // namespace bellows
