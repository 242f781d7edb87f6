// Every kernel of autograd/ on a device, held to its CPU twin.
#include <gtest/gtest.h>
#include <cmath>
#include "autograd/backward.h"
#include "core/copy.h"
#include "core/foreach.h"
#include "tests/twins.h"

using namespace bellows;

TEST(AutogradOnDevice, FindsANonFiniteElementAnywhere) {
  if (device_count(Device::cuda) == 0) GTEST_SKIP() << why_no_device(Device::cuda);
  const RunCount runs;
  for (const double bad : {0.0, double(NAN), double(INFINITY), -double(INFINITY)})
    for (const int64_t at : {0, 255, 1000}) {
      const Tensor x = full({1001}, 1);
      x.data<float>()[at] = float(bad);
      EXPECT_EQ(all_finite(x), bad == 0);
      for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
        EXPECT_EQ(all_finite(to(Device::cuda, cast(x, dtype))), bad == 0) << dtype << ' ' << at;
    }
  EXPECT_EQ(without_twin(runs, "autograd"), "");
}
