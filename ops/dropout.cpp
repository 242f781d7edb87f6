#include "ops/dropout.h"
#include "autograd/recompute.h"
#include "core/device/parallel.h"
#include "core/tensor/copy.h"
#include "ops/base/map.h"
#include "ops/base/op.h"

namespace bellows {

Tensor dropout(const Tensor& x, double p, uint64_t seed, const DeviceStepState& state) {
  CHECK(p >= 0 && p < 1, "dropout: p = ", p, " is not in [0, 1)");
  CHECK(x.device() == state.device(), "dropout: x is on ", x.device(), ", the step state on ",
        state.device());
  const RngKey key{.seed = seed, .purpose = Purpose::dropout, .site = current_site()->hash};
  Tensor y;
  const Tensor step = drawn([&] {
    const kernels::Dropout now = kernels::dropout(x, p, key, state.get());
    y = now.y;
    return now.step;
  });
  if (!y.defined()) y = kernels::dropout_backward(x, p, key, step);
  if (!will_record(x)) return y;
  return record("dropout", y, {x}, [p, key, step = Saved(step)](const Tensor& dy) {
    return Grads{kernels::dropout_backward(dy, p, key, step())};
  });
}

// One state per device, never destroyed: the device may be gone before static destructors run.
static const DeviceStepState& state_on(Device device) {
  static std::array<const DeviceStepState*, kDevices> states{};
  const DeviceStepState*& state = states[static_cast<int>(device)];
  if (!state) state = new DeviceStepState(device);
  return *state;
}
static Tensor run_dropout(const Inputs& in) {
  return dropout(in[0], 0.3, 1, state_on(in[0].device()));
}
static const AddOp spec({.name = "dropout",
                         .math = "0 with probability p, else x / (1 - p)",
                         .cases = {{{1}}, {{7}}, {{2, 3, 4, 5}}},
                         .run = run_dropout,
                         .large = {{{3, 20000}}},
                         .elementwise = true});

// ---- CPU

static constexpr int kBlock = 256;

// Draws the random bits of kBlock elements. A separate function and loop, which GCC vectorizes;
// stores to `bits` cannot alias the local copy of `rng`.
[[gnu::always_inline]] static inline void draw(const Philox& rng, uint64_t first, uint32_t* bits) {
  const Philox philox = rng;
  for (int i = 0; i < kBlock / 4; ++i) {
    const Philox::Four four = philox(first / 4 + i);
    for (int k = 0; k < 4; ++k) bits[4 * i + k] = four.v[k];
  }
}

static Tensor masked(const Tensor& x, double p, RngKey key, int64_t step) {
  key.step = step;
  const Philox rng(key);
  const Tensor dense = contiguous(x), y = empty(x.shape(), x);
  const auto dropped = uint32_t(std::ceil(p * 0x1p24));  // to_uniform(bits) < p, with integers
  visit_stored(x.dtype(), [&]<class T>(T) {
    const T* const x_ = dense.ptr<T>();
    T* const y_ = y.ptr<T>();
    const Acc<T> scale = Acc<T>(1 / (1 - p));
    parallel_for(x.numel(), 8192, [&](int64_t b, int64_t e) {  // multiple of kBlock
      in_wide_loop<T>([&, x_, y_, b, e, dropped, scale ]() __attribute__((always_inline)) {
        uint32_t bits[kBlock];
        for (int64_t i = b; i < e; i += kBlock) {
          draw(rng, uint64_t(i), bits);
          const int64_t n = std::min<int64_t>(kBlock, e - i);
          for (int64_t k = 0; k < n; ++k)
            y_[i + k] = T(bits[k] >> 8 < dropped ? Acc<T>(0) : Acc<T>(x_[i + k]) * scale);
        }
      });
    });
  });
  return y;
}

static kernels::Dropout dropout_cpu(const Tensor& x, double p, const RngKey& key,
                                    const StepState* state) {
  const Tensor step({1}, DType::i64);
  *step.ptr<int64_t>() = state->forwards;
  return {masked(x, p, key, state->forwards), step};
}
static Tensor dropout_backward_cpu(const Tensor& dy, double p, const RngKey& key,
                                   const Tensor& step) {
  return masked(dy, p, key, *step.ptr<int64_t>());
}

static const bool cpu = kernels::dropout.on(Device::cpu, dropout_cpu) &&
                        kernels::dropout_backward.on(Device::cpu, dropout_backward_cpu);

}  // namespace bellows
