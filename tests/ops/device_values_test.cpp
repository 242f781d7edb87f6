// Ops on a device beyond the generic suite: wrong labels and indices, and the step.
#include <gtest/gtest.h>
#include <cmath>
#include "autograd/backward.h"
#include "autograd/recompute.h"
#include "core/device/device_pool.h"
#include "core/device/graph.h"
#include "core/device/sync_guard.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "ops/cross_entropy.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/gather.h"
#include "ops/reduce.h"
#include "tests/on_device.h"

using namespace bellows;

class ValuesOnDevice : public OnDevice<> {
 protected:
  void TearDown() override {  // memory pools of graphs
    if (device_count(Device::cuda)) empty_cache(Device::cuda);
  }
};

template <class T> static std::vector<T> values(const Tensor& t) {
  const Tensor host = to(Device::cpu, contiguous(t));
  synchronize(current_stream(t.device()));
  return {host.data<T>().begin(), host.data<T>().end()};
}

// The host does not wait for the device, so it cannot throw.
TEST_F(ValuesOnDevice, AWrongLabelMakesTheLossAndTheGradientOfItsRowNaN) {
  for (const int64_t wrong : {int64_t(-2), int64_t(3), INT64_MIN, INT64_MAX}) {
    const Tensor x = require_grad(full({4, 3}, 1, DType::f32, Device::cuda));
    const Tensor labels = tensor_of<int64_t>({1, wrong, 2, 0}, {4}, Device::cuda);
    EXPECT_TRUE(std::isnan(cross_entropy(x, labels, {}, Impl::composed).item()));
    const Tensor loss = cross_entropy(x, labels);
    EXPECT_TRUE(std::isnan(loss.item()));
    backward(loss);
    const auto dx = values<float>(grad(x));
    for (int i = 0; i < 12; ++i) EXPECT_EQ(std::isnan(dx[i]), i / 3 == 1) << wrong << ' ' << i;
  }
}

TEST_F(ValuesOnDevice, ATargetThatIsLeftOutAddsNothingWhateverItsScores) {
  const Tensor x = require_grad(full({3, 2}, NAN, DType::f32, Device::cuda));
  const Tensor loss = cross_entropy(x, full({3}, kLeftOut, DType::i64, Device::cuda));
  EXPECT_EQ(loss.item(), 0);
  backward(loss);
  EXPECT_EQ(values<float>(grad(x)), std::vector<float>(6));
}

TEST_F(ValuesOnDevice, AnIndexOutsideOfItsAxisPicksNaNOrTheLowestAndMakesTheGradientNaN) {
  const Tensor index = tensor_of<int64_t>({0, -1, 3, 2}, {4}, Device::cuda);
  const Tensor x = require_grad(tensor_of<float>({5, 6, 7}, {3}, Device::cuda));
  const Tensor y = gather(x, 0, index);
  const auto picked = values<float>(y);
  EXPECT_EQ(picked[0], 5);
  EXPECT_TRUE(std::isnan(picked[1]) && std::isnan(picked[2]));
  EXPECT_EQ(picked[3], 7);
  backward(sum(y));
  EXPECT_TRUE(std::isnan(values<float>(grad(x))[0]));
  const Tensor whole = tensor_of<int64_t>({5, 6, 7}, {3}, Device::cuda);
  EXPECT_EQ(values<int64_t>(gather(whole, 0, index)),
            (std::vector<int64_t>{5, INT64_MIN, INT64_MIN, 7}));
}

TEST_F(ValuesOnDevice, AnIndexOutsideOfTheVocabularyPicksNaN) {
  const Tensor index = tensor_of<int64_t>({1, -1, 2, INT64_MAX}, {2, 2}, Device::cuda);
  const Tensor weight = require_grad(tensor_of<float>({5, 6}, {2, 1}, Device::cuda));
  const auto picked = values<float>(embedding(index, weight));
  EXPECT_EQ(picked[0], 6);
  for (const int i : {1, 2, 3}) EXPECT_TRUE(std::isnan(picked[i])) << i;
}

// Another forward pass starts before backward, without a wait: eager, and as a graph.
TEST_F(ValuesOnDevice, DropoutRunsAgainWithTheMaskOfItsForward) {
  const auto pool = std::make_shared<MemoryPool>(Device::cuda);
  const PoolScope scope(pool);  // a graph's memory must not move
  const DeviceStepState state(Device::cuda);
  const Tensor y = zeros({1001}, DType::f32, Device::cuda), dx = clone(y), other = clone(y);
  const auto update = [&] {
    const SyncGuard guard(OnSync::refuse);
    const auto drop = [&](const Tensor& x) { return dropout(x, 0.3, 1, state); };
    const Tensor x = require_grad(full({1001}, 1, DType::f32, Device::cuda));
    state.begin_forward();
    const Tensor dropped = recompute(drop, x, {});
    state.begin_forward();
    kernels::copy(y, dropped);
    kernels::copy(other, drop(dropped.detach()));
    backward(sum(dropped));
    kernels::copy(dx, grad(x));
  };
  const auto expect_masks = [&] {
    EXPECT_EQ(values<float>(dx), values<float>(y));
    EXPECT_NE(values<float>(other), values<float>(y));
    return values<float>(y);
  };
  update();
  const auto first = expect_masks();
  const Graph graph(Device::cuda, update);
  graph.launch();
  const auto second = expect_masks();
  graph.launch();
  EXPECT_NE(first, second);
  EXPECT_NE(second, expect_masks());
}
