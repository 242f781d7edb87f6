// The average of a model (Ema): its formula and its launches.
#include "optim/ema.h"
#include "tests/moved.h"
#include "tests/on_device.h"
#include "tests/optim/trained.h"

using namespace bellows;

namespace {

Tensor counter(int64_t n) { return tensor_of<int64_t>({n}, {1}); }
std::vector<float> values(const Tensor& t) {
  const Tensor host = to(Device::cpu, contiguous(t));
  return {host.data<float>().begin(), host.data<float>().end()};
}

class EmaOnDevice : public OnDevice<> {};

}  // namespace

TEST(Ema, MovesByAShareTowardsTheValues) {
  const Tensor w = tensor_of<float>({1, 2}, {2}), b = tensor_of<float>({8}, {1});
  Ema ema(0.75, {{"w", require_grad(w)}}, {{"b", b}});
  fill(w, 4);
  ema.update();
  ASSERT_EQ(ema.state().size(), 2u);
  EXPECT_EQ(ema.state()[0].name, "ema/w");
  EXPECT_EQ(values(ema.state()[0].tensor), (std::vector<float>{1.75, 2.5}));
  EXPECT_EQ(values(ema.state()[1].tensor), std::vector<float>{8});
  ema.update();
  EXPECT_EQ(values(ema.state()[0].tensor), (std::vector<float>{2.3125, 2.875}));
  ema.restart();
  EXPECT_EQ(values(ema.state()[0].tensor), (std::vector<float>{4, 4}));
}

TEST(Ema, ChangesPlacesAndBack) {
  const Tensor w = tensor_of<float>({1, 2}, {2}), n = counter(3);
  Ema ema(0.5, {{"w", require_grad(w)}}, {{"n", n}});
  fill(w, 5);
  n.data<int64_t>()[0] = 7;
  const uint32_t before = w.storage()->version;
  {
    const EmaScope averaged(ema);
    EXPECT_EQ(values(w), (std::vector<float>{1, 2}));
    EXPECT_EQ(n.data<int64_t>()[0], 7);
  }
  EXPECT_EQ(values(w), (std::vector<float>{5, 5}));
  EXPECT_EQ(values(ema.state()[0].tensor), (std::vector<float>{1, 2}));
  EXPECT_EQ(w.storage()->version, before + 2);
  EXPECT_EQ(ema.state()[1].tensor.data<int64_t>()[0], 7) << "a count is what it is";
}

TEST(Ema, LiesInMemoryAsTheModel) {
  const Shape shape{4, 3, 2, 5};
  const Tensor w = contiguous(normal(shape, DType::f32, 1), kNHWC);
  Ema ema(0.9, {{"w", require_grad(w)}}, {});
  const Tensor next = normal(shape, DType::f32, 2);
  const std::vector<float> first = values(w), second = values(next);
  copy_into(w, next);
  ema.update();
  const std::vector<float> average = values(ema.state()[0].tensor);
  for (size_t i = 0; i < average.size(); ++i)
    EXPECT_NEAR(average[i], .9 * first[i] + .1 * second[i], 1e-6);
}

TEST_F(EmaOnDevice, StaysWhereAnUpdateIsSkipped) {
  const Tensor w = to(Device::cuda, tensor_of<float>({1, 2}, {2}));
  Ema ema(0.75, {{"w", require_grad(w)}}, {});
  DeviceStepState state(Device::cuda);
  state.write({.found_inf = 1});
  fill(w, 4);
  ema.update(state.get());
  EXPECT_EQ(values(ema.state()[0].tensor), (std::vector<float>{1, 2}));
}

TEST_F(EmaOnDevice, IsOneLaunchAndTheCpusBits) {
  const auto averages = [](Device device) {
    NamedTensors weights = odd_parameters(DType::f32, device);
    Ema ema(0.9, weights, {{"n", to(device, counter(3))}});
    for (size_t i = 0; i < weights.size(); ++i)
      copy_into(weights[i].tensor.detach(),
                to(device, normal(weights[i].tensor.shape(), DType::f32, 20 + i)));
    const Moved launches("cuda.launches");
    ema.update();
    ema.swap();
    EXPECT_EQ(launches, device == Device::cuda ? 2 : 0);
    std::vector<Tensor> all;
    for (const NamedTensors& list : {weights, ema.state()})
      for (const NamedTensor& t : list) all.push_back(to(Device::cpu, t.tensor.detach()));
    return all;
  };
  const std::vector<Tensor> cpu = averages(Device::cpu), gpu = averages(Device::cuda);
  for (size_t i = 0; i < cpu.size(); ++i) EXPECT_TRUE(same_bits(cpu[i], gpu[i])) << i;
}
