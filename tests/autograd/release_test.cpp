// A graph that is dropped without a backward frees all of its branches.
#include <gtest/gtest.h>
#include "autograd/record.h"
#include "core/device/allocator.h"
#include "core/tensor/foreach.h"

using namespace bellows;

static Tensor join(const Tensor& a, const Tensor& b) {
  return record("join", full({100}, 1), {a, b}, [a = Saved(a), b = Saved(b)](const Tensor& dy) {
    return Grads{dy, dy};
  });
}

TEST(Release, DroppingTheLastHandleFreesEveryBranch) {
  const Tensor leaf = require_grad(full({100}, 1));
  const int64_t before = allocator_stats(Device::cpu).allocated;
  {
    Tensor y = join(leaf, leaf);
    for (int i = 0; i < 5; ++i) y = join(join(y, leaf), join(leaf, y));
    EXPECT_GT(allocator_stats(Device::cpu).allocated, before);
  }
  EXPECT_EQ(allocator_stats(Device::cpu).allocated, before);
}
