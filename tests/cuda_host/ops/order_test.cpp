// Every op gives the same bits in every order that CUDA allows.
#include "tests/cuda_host/cuda_host.h"
#include "tests/ops/op_results.h"

using namespace bellows;

class OpOrderOnDevice : public Op {};

TEST_P(OpOrderOnDevice, DoesNotChangeABit) {
  for (const Shapes& shapes : op.cases) {
    const auto run_here = [&] {
      return run(op, op.run, each(make_inputs(op, shapes, DType::f32), [](const Tensor& t) {
                   return require_grad(to(Device::cuda, t.detach()));
                 }));
    };
    const Result want = run_here();
    for (const cuda_host::Schedule& schedule : cuda_host::schedules(4)) {
      SCOPED_TRACE(cat(describe(op, shapes), ", ", schedule));
      cuda_host::use(schedule);
      expect_same_bits(want, run_here());
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, OpOrderOnDevice, testing::ValuesIn(op_specs()), test_name);
