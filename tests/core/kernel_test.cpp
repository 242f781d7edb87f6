// Dispatch: by the device of the first argument that has one, to a vendor if the options request
// it.
#include "core/tensor/kernel.h"
#include <gtest/gtest.h>
#include "core/device/device.h"
#include "core/tensor/step_state.h"
#include "tests/moved.h"
#include "tests/refusal.h"

using namespace bellows;

// Fakes a second device with host memory. Dispatch only asks an argument for its device and reads
// no data.
class Dispatch : public testing::Test {
 protected:
  Dispatch() : before_(device_apis[1]) { device_apis[1] = device_apis[0]; }
  ~Dispatch() override { device_apis[1] = before_; }

 private:
  const DeviceApi before_;
};

template <class... Args> static constinit Kernel<std::string(Args...)> both{"both"};

// Returns the device that a kernel of this signature runs on, or the error message.
template <class... Args> static std::string device_for(std::type_identity_t<Args>... args) {
  both<Args...>.on(Device::cpu, [](Args...) -> std::string { return "cpu"; });
  both<Args...>.on(Device::cuda, [](Args...) -> std::string { return "cuda"; });
  std::string device;
  const std::string refused = refusal([&] { device = both<Args...>(args...); });
  return device.empty() ? refused : device;
}

TEST_F(Dispatch, GoesToTheFirstArgumentThatHasADevice) {
  using One = const Tensor&;
  using Span = std::span<const Tensor>;
  using Vector = const std::vector<Tensor>&;
  const Tensor on_cpu({1}, DType::f32), on_cuda({1}, DType::f32, Device::cuda);
  const std::vector<Tensor> empty, list{on_cuda, on_cuda};
  EXPECT_EQ((device_for<One, double>(on_cuda, 1)), "cuda");
  EXPECT_EQ((device_for<double, One>(1, on_cuda)), "cuda");
  EXPECT_EQ((device_for<One, One>({}, on_cuda)), "cuda") << "a tensor left out";
  EXPECT_EQ((device_for<Span, One>(list, on_cuda)), "cuda");
  EXPECT_EQ((device_for<Span, Span>(empty, list)), "cuda");
  EXPECT_EQ((device_for<int, Vector>(1, list)), "cuda");
  EXPECT_EQ((device_for<int64_t, Device>(10, Device::cuda)), "cuda");
  EXPECT_EQ((device_for<Span>(empty)),
            "both: no device to run on, its tensors are undefined and its lists empty");
  EXPECT_EQ((device_for<One, One>(on_cpu, on_cuda)),
            "both: one tensor is on cpu, another one on cuda");
  EXPECT_EQ((device_for<Span, One>(list, on_cpu)),
            "both: one tensor is on cuda, another one on cpu");
}

static constinit Kernel<int(Device)> cpu_only{"cpu_only"};

TEST_F(Dispatch, NamesTheKernelThatADeviceLacks) {
  cpu_only.on(Device::cpu, [](Device) { return 1; });
  EXPECT_EQ(refusal([] { cpu_only(Device::cuda); }), "cpu_only: no cuda kernel in this build");
}

// ---- vendors

static constinit Kernel<std::string(Device)> varying{"varying"}, invariant{"invariant"};

class Vendors : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    varying.on(Device::cpu, [](Device) -> std::string { return "plain"; });
    varying.vendor_on(Device::cpu, [](Device) -> std::string { return "vendor"; });
    invariant.on(Device::cpu, [](Device) -> std::string { return "plain"; });
    invariant.vendor_on(Device::cpu, [](Device) -> std::string { return "vendor"; },
                        {.thread_invariant = true});
  }
};

TEST_F(Vendors, RunWhereTheOptionsAskForThem) {
  EXPECT_EQ(varying(Device::cpu), "plain");
  {
    const Kernels use({.vendor = true});
    {
      const Kernels inner({.deterministic = true});
      EXPECT_EQ(invariant(Device::cpu), "plain") << "an inner scope replaces all options";
    }
    EXPECT_EQ(varying(Device::cpu), "vendor");
    EXPECT_EQ(varying.plain(Device::cpu), "plain");
  }
  EXPECT_EQ(varying(Device::cpu), "plain") << "the options end with their scope";
}

TEST_F(Vendors, ThatVaryWithTheThreadsAreSkippedByDeterministic) {
  const Kernels use({.vendor = true, .deterministic = true});
  EXPECT_EQ(varying(Device::cpu), "plain");
  EXPECT_EQ(invariant(Device::cpu), "vendor");
}

// ---- devices and StepState

TEST(Device, TheCpuIsInOrderAndDoneAtOnce) {
  EXPECT_EQ(device_count(Device::cpu), 1);
  const Stream stream = stream_of(Device::cpu, StreamUse::copy);
  const StreamGuard on(stream);
  Event event(Device::cpu);
  event.record(current_stream(Device::cpu));
  event.hold(stream);
  EXPECT_TRUE(event.ready());
}

TEST(StepState, IsWrittenAndReadAsAWholeAndOnTheCpuWithoutAWait) {
  const Moved syncs("sync.count");
  DeviceStepState state(Device::cpu);
  EXPECT_EQ(state.read().applied, 0);
  EXPECT_EQ(state.read().loss_scale, 1);
  state.write({.forwards = 7, .applied = 5, .skipped = 1, .inverse_scale = 0.5, .found_inf = 1});
  EXPECT_EQ(state.get()->applied, 5) << "kernels read it by pointer";
  state.get()->applied = 6;
  const StepState read = state.read();
  EXPECT_EQ(read.applied, 6);
  EXPECT_EQ(read.forwards, 7);
  EXPECT_EQ(read.inverse_scale, 0.5f);
  EXPECT_EQ(read.found_inf, 1);
  EXPECT_EQ(syncs, 0);
  synchronize(current_stream(Device::cpu));
  EXPECT_EQ(syncs, 1);
}
