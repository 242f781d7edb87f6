// Dispatch: by the device of the first argument that has one, to a vendor if the options request
// it.
#include "core/tensor/kernel.h"
#include <gtest/gtest.h>
#include "core/device/device.h"
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
  EXPECT_EQ((device_for<One, One>({}, on_cuda)), "cuda") << "a tensor left out";
  EXPECT_EQ((device_for<Span, One>(list, on_cuda)), "cuda");
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

TEST(Vendors, RunIfTheyAreAskedForButNotDeterministicallyWhereTheThreadsChangeTheirBits) {
  for (auto* kernel : {&varying, &invariant}) {
    kernel->on(Device::cpu, [](Device) -> std::string { return "plain"; });
    kernel->vendor_on(Device::cpu, [](Device) -> std::string { return "vendor"; },
                      {.thread_invariant = kernel == &invariant});
  }
  {
    const Kernels use({.vendor = true});
    EXPECT_EQ(varying(Device::cpu), "vendor");
    const Kernels deterministic({.vendor = true, .deterministic = true});
    EXPECT_EQ(varying(Device::cpu), "plain");
    EXPECT_EQ(invariant(Device::cpu), "vendor");
  }
  EXPECT_EQ(varying(Device::cpu), "plain") << "the options end with their scope";
}
